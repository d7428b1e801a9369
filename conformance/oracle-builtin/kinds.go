package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	genericvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	aggregatorinstall "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	"k8s.io/kubernetes/pkg/apis/authentication"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	authenticationvalidation "k8s.io/kubernetes/pkg/apis/authentication/validation"
	"k8s.io/kubernetes/pkg/apis/authorization"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	authorizationvalidation "k8s.io/kubernetes/pkg/apis/authorization/validation"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
)

// A kind as upstream's registry has it: who judges it at which endpoint, or what judges it if it is a question.
type kind struct {
	create   rest.RESTCreateStrategy
	update   map[string]rest.RESTUpdateStrategy
	attrs    func(runtime.Object) (labels.Set, fields.Set, error)
	question func(runtime.Object) field.ErrorList
}

var kinds = map[schema.GroupKind]kind{}

func init() {
	aggregatorinstall.Install(legacyscheme.Scheme)
	admission := "admissionregistration.k8s.io"
	stored := func(group, name string, strategy any, attrs func(runtime.Object) (labels.Set, fields.Set, error), endpoints ...any) {
		update := map[string]rest.RESTUpdateStrategy{"": strategy.(rest.RESTUpdateStrategy)}
		for i := 0; i < len(endpoints); i += 2 {
			update[endpoints[i].(string)] = endpoints[i+1].(rest.RESTUpdateStrategy)
		}
		kinds[schema.GroupKind{Group: group, Kind: name}] = kind{create: strategy.(rest.RESTCreateStrategy), update: update, attrs: attrs}
	}
	stored("", "ConfigMap", configmap.Strategy, nil)
	stored("", "Event", event.Strategy, event.GetAttrs)
	stored("", "Namespace", namespace.Strategy, namespace.GetAttrs, "status", namespace.StatusStrategy, "finalize", namespace.FinalizeStrategy)
	stored("", "ResourceQuota", resourcequota.Strategy, nil, "status", resourcequota.StatusStrategy)
	stored("", "Secret", secret.Strategy, secret.GetAttrs)
	stored("", "Service", service.Strategy, nil, "status", service.StatusStrategy)
	stored("", "ServiceAccount", serviceaccount.Strategy, nil)
	stored("events.k8s.io", "Event", event.Strategy, event.GetAttrs)
	stored(admission, "MutatingWebhookConfiguration", mutatingwebhookconfiguration.Strategy, nil)
	stored(admission, "ValidatingWebhookConfiguration", validatingwebhookconfiguration.Strategy, nil)
	policy := validatingadmissionpolicy.NewStrategy(nil, nil)
	stored(admission, "ValidatingAdmissionPolicy", policy, nil, "status", validatingadmissionpolicy.NewStatusStrategy(policy))
	stored(admission, "ValidatingAdmissionPolicyBinding", validatingadmissionpolicybinding.NewStrategy(nil, nil, nil), nil)
	aggregator := apiservice.NewStrategy(legacyscheme.Scheme)
	stored(apiregistration.GroupName, "APIService", aggregator, nil, "status", apiservice.NewStatusStrategy(legacyscheme.Scheme))
	stored("coordination.k8s.io", "Lease", lease.Strategy, nil)
	stored("rbac.authorization.k8s.io", "ClusterRole", clusterrole.Strategy, nil)
	stored("rbac.authorization.k8s.io", "ClusterRoleBinding", clusterrolebinding.Strategy, nil)
	stored("rbac.authorization.k8s.io", "Role", role.Strategy, nil)
	stored("rbac.authorization.k8s.io", "RoleBinding", rolebinding.Strategy, nil)

	question := func(group, name string, judge func(runtime.Object) field.ErrorList) {
		kinds[schema.GroupKind{Group: group, Kind: name}] = kind{question: judge}
	}
	question(authorization.GroupName, "SubjectAccessReview", func(o runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateSubjectAccessReview(o.(*authorization.SubjectAccessReview))
	})
	question(authorization.GroupName, "SelfSubjectAccessReview", func(o runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateSelfSubjectAccessReview(o.(*authorization.SelfSubjectAccessReview))
	})
	question(authorization.GroupName, "LocalSubjectAccessReview", func(o runtime.Object) field.ErrorList {
		return authorizationvalidation.ValidateLocalSubjectAccessReview(o.(*authorization.LocalSubjectAccessReview))
	})
	question(authentication.GroupName, "TokenRequest", func(o runtime.Object) field.ErrorList {
		return authenticationvalidation.ValidateTokenRequest(o.(*authentication.TokenRequest))
	})

	register("create", create)
	register("update", update)
	register("field", fieldLabel)
}

// read makes a typed object, its defaults filled in, in its internal version; and the JSON of it before and after the defaults.
func read(raw json.RawMessage) (gvk schema.GroupVersionKind, internal runtime.Object, decoded, defaulted json.RawMessage, err error) {
	var typeMeta runtime.TypeMeta
	if err = json.Unmarshal(raw, &typeMeta); err != nil {
		return
	}
	gvk = schema.FromAPIVersionAndKind(typeMeta.APIVersion, typeMeta.Kind)
	object, err := legacyscheme.Scheme.New(gvk)
	if err != nil {
		return
	}
	if err = json.Unmarshal(raw, object); err != nil {
		return
	}
	if decoded, err = json.Marshal(object); err != nil {
		return
	}
	legacyscheme.Scheme.Default(object)
	if internal, err = legacyscheme.Scheme.UnsafeConvertToVersion(object.DeepCopyObject(), runtime.InternalGroupVersioner); err != nil {
		return
	}
	defaulted, err = write(gvk, internal)
	return
}

// write is the JSON of an internal object in a version.
func write(gvk schema.GroupVersionKind, internal runtime.Object) (json.RawMessage, error) {
	external, err := legacyscheme.Scheme.UnsafeConvertToVersion(internal.DeepCopyObject(), gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	external.GetObjectKind().SetGroupVersionKind(gvk)
	return json.Marshal(external)
}

func request(gvk schema.GroupVersionKind, subresource string) context.Context {
	info := &genericapirequest.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version, Subresource: subresource}
	return genericapirequest.WithRequestInfo(context.Background(), info)
}

// known leaves out whether the client may read what a policy refers to: that is not asked here, and there is nobody to tell.
func known(errors field.ErrorList) (all field.ErrorList) {
	for _, err := range errors {
		if !strings.HasPrefix(err.Detail, "unexpected internal error: ") {
			all = append(all, err)
		}
	}
	return all
}

func texts(errors field.ErrorList) []string {
	all := []string{}
	for _, err := range errors {
		all = append(all, string(err.Type)+" "+err.Error())
	}
	return all
}

// create does what the registry does with a new object, as rest.BeforeCreate has it.
func create(line []byte) (any, error) {
	var question struct {
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	gvk, object, decoded, defaulted, err := read(question.Object)
	if err != nil {
		return nil, err
	}
	kind, ok := kinds[gvk.GroupKind()]
	if !ok {
		return nil, fmt.Errorf("unknown kind %v", gvk)
	}
	answer := map[string]any{"decoded": decoded, "defaulted": defaulted, "warnings": []string{}}
	if kind.question != nil {
		answer["prepared"] = defaulted
		answer["errors"] = texts(kind.question(object))
		return answer, nil
	}
	ctx := request(gvk, "")
	kind.create.PrepareForCreate(ctx, object)
	if answer["prepared"], err = write(gvk, object); err != nil {
		return nil, err
	}
	errors := known(kind.create.Validate(ctx, object))
	if len(errors) == 0 {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		errors = genericvalidation.ValidateObjectMetaAccessor(accessor, kind.create.NamespaceScoped(), path.ValidatePathSegmentName, field.NewPath("metadata"))
	}
	answer["errors"] = texts(errors)
	if len(errors) == 0 {
		answer["warnings"] = append([]string{}, kind.create.WarningsOnCreate(ctx, object)...)
		kind.create.Canonicalize(object)
		if answer["stored"], err = write(gvk, object); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// update does what the registry does with an update, as rest.BeforeUpdate has it, but for what it does to the metadata of
// any object.
func update(line []byte) (any, error) {
	var question struct {
		Old         json.RawMessage `json:"old"`
		New         json.RawMessage `json:"new"`
		Subresource string          `json:"subresource"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	gvk, object, decoded, defaulted, err := read(question.New)
	if err != nil {
		return nil, err
	}
	_, old, _, oldDefaulted, err := read(question.Old)
	if err != nil {
		return nil, err
	}
	strategy, ok := kinds[gvk.GroupKind()].update[question.Subresource]
	if !ok {
		return nil, fmt.Errorf("unknown kind %v or endpoint %q", gvk, question.Subresource)
	}
	ctx := request(gvk, question.Subresource)
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	oldAccessor, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	accessor.SetGeneration(oldAccessor.GetGeneration())
	strategy.PrepareForUpdate(ctx, object, old)
	prepared, err := write(gvk, object)
	if err != nil {
		return nil, err
	}
	metadata := field.NewPath("metadata")
	errors := genericvalidation.ValidateObjectMetaAccessor(accessor, strategy.NamespaceScoped(), path.ValidatePathSegmentName, metadata)
	errors = append(errors, genericvalidation.ValidateObjectMetaAccessorUpdate(accessor, oldAccessor, metadata)...)
	errors = append(errors, known(strategy.ValidateUpdate(ctx, object, old))...)
	answer := map[string]any{
		"decoded": decoded, "defaulted": defaulted, "old": oldDefaulted, "prepared": prepared, "errors": texts(errors),
		"warnings": []string{},
	}
	if len(errors) == 0 {
		answer["warnings"] = append([]string{}, strategy.WarningsOnUpdate(ctx, object, old)...)
		strategy.Canonicalize(object)
		if answer["stored"], err = write(gvk, object); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// fieldLabel tells what a field selector sees in an object under a label, or that there is no such label.
func fieldLabel(line []byte) (any, error) {
	var question struct {
		Object json.RawMessage `json:"object"`
		Label  string          `json:"label"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	gvk, object, _, _, err := read(question.Object)
	if err != nil {
		return nil, err
	}
	label, _, err := legacyscheme.Scheme.ConvertFieldLabel(gvk, question.Label, "")
	if err != nil {
		return map[string]any{"unsupported": err.Error()}, nil
	}
	attrs := kinds[gvk.GroupKind()].attrs
	if attrs == nil {
		return map[string]any{"supported": true}, nil
	}
	_, set, err := attrs(object)
	if err != nil {
		return nil, err
	}
	return map[string]any{"value": set[label]}, nil
}
