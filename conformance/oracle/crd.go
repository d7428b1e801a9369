// What upstream does with a CRD and its objects: the judge of crates/rdd-schema.

// Kubernetes v1.35 is built as Go 1.25, which takes any colons in the host of a URL.
//go:debug urlstrictcolons=0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	objectvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	kjson "sigs.k8s.io/json"
)

var crdScheme = runtime.NewScheme()

func init() {
	install.Install(crdScheme)
	operations["crd.validate"] = crdValidate
	operations["crd.validateUpdate"] = crdValidateUpdate
	operations["crd.prune"] = crdPrune
	operations["crd.default"] = crdDefault
	operations["crd.coerce"] = crdCoerce
	operations["crd.object"] = crdObject
	operations["crd.update"] = crdUpdate
	operations["crd.strict"] = crdStrict
	operations["crd.write"] = crdWrite
	operations["crd.column"] = crdColumn
	operations["crd.format"] = crdFormat
	operations["crd.pattern"] = crdPattern
	operations["crd.invalid"] = crdInvalid
	operations["crd.resource"] = crdResource
	operations["crd.decode"] = crdDecode
	operations["crd.order"] = crdOrder
}

type crdError struct {
	Type   string `json:"type"`
	Field  string `json:"field"`
	Body   string `json:"body"`
	Detail string `json:"detail"`
}

func crdErrors(list field.ErrorList) []crdError {
	out := []crdError{}
	for _, e := range list {
		// What a rule means is judged elsewhere.
		if strings.HasPrefix(e.Detail, "rule compiler initialization error") {
			continue
		}
		out = append(out, crdError{string(e.Type), e.Field, e.ErrorBody(), e.Detail})
	}
	return out
}

// crdRead decodes the way the server's serializer does: case-sensitive, integers kept.
func crdRead(raw json.RawMessage, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

func crdValue(raw json.RawMessage) (any, error) {
	var value any
	err := crdRead(raw, &value)
	return value, err
}

func crdInternal(raw json.RawMessage) (*apiextensions.CustomResourceDefinition, error) {
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := crdRead(raw, external); err != nil {
		return nil, err
	}
	crdScheme.Default(external)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := crdScheme.Convert(external, internal, nil); err != nil {
		return nil, err
	}
	return internal, nil
}

type crdRequest struct {
	Scale      *apiextensions.CustomResourceSubresourceScale `json:"scale"`
	Namespaced bool                                          `json:"namespaced"`
	CRD        json.RawMessage                               `json:"crd"`
	Old        json.RawMessage                               `json:"old"`
	Schema     json.RawMessage                               `json:"schema"`
	Object     json.RawMessage                               `json:"object"`
	Root       bool                                          `json:"root"`
	Drop       bool                                          `json:"drop"`
	Text       string                                        `json:"text"`
	Path       string                                        `json:"path"`
	Type       string                                        `json:"type"`
	Format     string                                        `json:"format"`
	Pattern    string                                        `json:"pattern"`
}

func crdParse(line []byte) (crdRequest, error) {
	var request crdRequest
	err := json.Unmarshal(line, &request)
	return request, err
}

func crdSchema(raw json.RawMessage) (*apiextensions.JSONSchemaProps, *structuralschema.Structural, error) {
	external := &apiextensionsv1.JSONSchemaProps{}
	if err := crdRead(raw, external); err != nil {
		return nil, nil, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, internal, nil); err != nil {
		return nil, nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	return internal, structural, err
}

func crdValidate(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	crd, err := crdInternal(request.CRD)
	if err != nil {
		return nil, err
	}
	return crdAnswers(func() (any, bool) {
		errs := crdErrors(crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd.DeepCopy()))
		return errs, crdIsRandom(errs)
	}), nil
}

// crdIsRandom tells whether one of the errors is about a default or a field that is not supported: upstream reports a random one.
func crdIsRandom(errs []crdError) bool {
	for _, e := range errs {
		if strings.Contains(e.Field, "default") || strings.HasPrefix(e.Detail, "OpenAPIV3Schema '") {
			return true
		}
	}
	return false
}

// crdAnswers collects the answers that a function with random map walks gives.
func crdAnswers(ask func() (answer any, random bool)) []any {
	seen := map[string]bool{}
	answers := []any{}
	for i := 0; i < 24; i++ {
		answer, random := ask()
		text, _ := json.Marshal(answer)
		if list, ok := answer.([]crdError); ok {
			sorted := append([]crdError{}, list...)
			sort.Slice(sorted, func(i, j int) bool { return fmt.Sprint(sorted[i]) < fmt.Sprint(sorted[j]) })
			text, _ = json.Marshal(sorted)
		}
		if !seen[string(text)] {
			seen[string(text)] = true
			answers = append(answers, answer)
		}
		if !random {
			break
		}
	}
	return answers
}

func crdValidateUpdate(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	crd, err := crdInternal(request.CRD)
	if err != nil {
		return nil, err
	}
	old, err := crdInternal(request.Old)
	if err != nil {
		return nil, err
	}
	return crdAnswers(func() (any, bool) {
		errs := crdErrors(crdvalidation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd.DeepCopy(), old.DeepCopy()))
		return errs, crdIsRandom(errs)
	}), nil
}

func crdPrune(line []byte) (any, error) {
	request, structural, object, err := crdSchemaAndObject(line)
	if err != nil {
		return nil, err
	}
	paths := pruning.PruneWithOptions(object, structural, request.Root, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if paths == nil {
		paths = []string{}
	}
	return map[string]any{"object": object, "paths": paths}, nil
}

func crdSchemaAndObject(line []byte) (crdRequest, *structuralschema.Structural, any, error) {
	request, err := crdParse(line)
	if err != nil {
		return request, nil, nil, err
	}
	_, structural, err := crdSchema(request.Schema)
	if err != nil {
		return request, nil, nil, err
	}
	object, err := crdValue(request.Object)
	return request, structural, object, err
}

func crdDefault(line []byte) (any, error) {
	_, structural, object, err := crdSchemaAndObject(line)
	if err != nil {
		return nil, err
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
	defaulting.Default(object, structural)
	return map[string]any{"object": object}, nil
}

func crdCoerce(line []byte) (any, error) {
	request, structural, object, err := crdSchemaAndObject(line)
	if err != nil {
		return nil, err
	}
	return crdAnswers(func() (any, bool) {
		copied := runtime.DeepCopyJSONValue(object)
		failure, paths := objectmeta.CoerceWithOptions(nil, copied, structural, request.Root,
			objectmeta.CoerceOptions{DropInvalidFields: request.Drop, ReturnUnknownFieldPaths: true})
		if failure != nil {
			return map[string]any{"error": crdErrors(field.ErrorList{failure})[0]}, true
		}
		if paths == nil {
			paths = []string{}
		}
		return map[string]any{"object": copied, "paths": paths}, false
	}), nil
}

func crdObject(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	internal, structural, err := crdSchema(request.Schema)
	if err != nil {
		return nil, err
	}
	value, err := crdValue(request.Object)
	if err != nil {
		return nil, err
	}
	validator, _, err := objectvalidation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	errs := objectvalidation.ValidateCustomResource(nil, value, validator)
	errs = append(errs, objectmeta.Validate(nil, value, structural, request.Root)...)
	if object, ok := value.(map[string]any); ok {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, object)...)
	}
	return crdErrors(errs), nil
}

func crdUpdate(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	internal, structural, err := crdSchema(request.Schema)
	if err != nil {
		return nil, err
	}
	value, err := crdValue(request.Object)
	if err != nil {
		return nil, err
	}
	old, err := crdValue(request.Old)
	if err != nil {
		return nil, err
	}
	validator, _, err := objectvalidation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	correlated := common.NewCorrelatedObject(value, old, &model.Structural{Structural: structural})
	errs := objectvalidation.ValidateCustomResourceUpdate(nil, value, old, validator, objectvalidation.WithRatcheting(correlated))
	newObject, _ := value.(map[string]any)
	oldObject, _ := old.(map[string]any)
	if len(listtype.ValidateListSetsAndMaps(nil, structural, oldObject)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, newObject)...)
	}
	return crdErrors(errs), nil
}

func crdStrict(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	strict, err := kjson.UnmarshalStrict([]byte(request.Text), &object)
	if err != nil {
		return nil, err
	}
	if len(strict) == 0 {
		return map[string]any{"object": object, "error": ""}, nil
	}
	return map[string]any{"object": object, "error": runtime.NewStrictDecodingError(strict).Error()}, nil
}

func crdWrite(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	value, err := crdValue(json.RawMessage(request.Text))
	if err != nil {
		return nil, err
	}
	text, err := utiljson.Marshal(value)
	return string(text), err
}

func crdColumn(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	value, err := crdValue(request.Object)
	if err != nil {
		return nil, err
	}
	path := jsonpath.New("column")
	if err := path.Parse(fmt.Sprintf("{%s}", request.Path)); err != nil {
		return map[string]any{"parse": err.Error()}, nil
	}
	path.AllowMissingKeys(true)
	results, err := path.FindResults(value)
	if err != nil {
		return map[string]any{"find": err.Error()}, nil
	}
	found := []any{}
	printed := ""
	if len(results) > 0 {
		for _, one := range results[0] {
			found = append(found, one.Interface())
		}
		if len(found) > 0 {
			var text bytes.Buffer
			if err := path.PrintResults(&text, []reflect.Value{reflect.ValueOf(found[0])}); err == nil {
				printed = text.String()
			}
		}
	}
	return map[string]any{"found": found, "printed": printed}, nil
}

func crdFormat(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	return strfmt.Default.ContainsName(request.Format) && strfmt.Default.Validates(request.Format, request.Text), nil
}

func crdPattern(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(request.Pattern)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"match": compiled.MatchString(request.Text)}, nil
}

func crdInvalid(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	value, err := crdValue(request.Object)
	if err != nil {
		return nil, err
	}
	path := field.NewPath("spec").Child("x").Key(request.Text).Index(2)
	list := field.ErrorList{
		field.Invalid(path, value, request.Text), field.TypeInvalid(path, value, request.Text), field.Duplicate(path, value), field.NotFound(path, value),
		field.Required(path, request.Text), field.Forbidden(path, request.Text), field.NotSupported(path, value, []string{request.Text, "b"}),
		field.TooMany(path, 3, 1), field.TooMany(path, -1, 2), field.TooLong(path, "", 1), field.TooLong(path, "", 7), field.Required(path, request.Text),
		field.InternalError(path, fmt.Errorf("%s", request.Text)),
	}
	status := apierrors.NewInvalid(schema.GroupKind{Group: "g.io", Kind: "K"}, request.Text, list).Status()
	return status, nil
}

// crdResource validates a whole object by the functions that the server's strategy calls, in its order, as a create or, with an
// old object, as an update. The strategy itself would bring in all of the server's storage.
func crdResource(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	internal, structural, err := crdSchema(request.Schema)
	if err != nil {
		return nil, err
	}
	value, err := crdValue(request.Object)
	if err != nil {
		return nil, err
	}
	validator, _, err := objectvalidation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: value.(map[string]any)}
	metadata := field.NewPath("metadata")
	if len(request.Old) == 0 {
		errs := metavalidation.ValidateObjectMetaAccessor(object, request.Namespaced, metavalidation.NameIsDNSSubdomain, metadata)
		errs = append(errs, objectvalidation.ValidateCustomResource(nil, object.Object, validator)...)
		errs = append(errs, crdScale(object.Object, request.Scale)...)
		errs = append(errs, objectmeta.Validate(nil, object.Object, structural, false)...)
		return crdErrors(append(errs, listtype.ValidateListSetsAndMaps(nil, structural, object.Object)...)), nil
	}
	old, err := crdValue(request.Old)
	if err != nil {
		return nil, err
	}
	before := &unstructured.Unstructured{Object: old.(map[string]any)}
	correlated := common.NewCorrelatedObject(object.Object, before.Object, &model.Structural{Structural: structural})
	errs := metavalidation.ValidateObjectMetaAccessorUpdate(object, before, metadata)
	errs = append(errs, objectvalidation.ValidateCustomResourceUpdate(nil, object.Object, before.Object, validator,
		objectvalidation.WithRatcheting(correlated))...)
	errs = append(errs, crdScale(object.Object, request.Scale)...)
	errs = append(errs, objectmeta.Validate(nil, object.Object, structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, structural, before.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, object.Object)...)
	}
	return crdErrors(errs), nil
}

// crdScale gives the errors of reading the paths of a scale subresource; what the numbers may be is not asked.
func crdScale(object map[string]any, scale *apiextensions.CustomResourceSubresourceScale) field.ErrorList {
	var errs field.ErrorList
	if scale == nil {
		return errs
	}
	steps := func(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
	for _, path := range []string{scale.SpecReplicasPath, scale.StatusReplicasPath} {
		if count, _, err := unstructured.NestedInt64(object, steps(path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(path), count, err.Error()))
		}
	}
	if path := scale.LabelSelectorPath; path != nil {
		if selector, _, err := unstructured.NestedString(object, steps(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), selector, err.Error()))
		}
	}
	return errs
}

// crdDecode does to an object what the server's decoder does: upstream's functions in the order in which it calls them.
func crdDecode(line []byte) (any, error) {
	request, structural, value, err := crdSchemaAndObject(line)
	if err != nil {
		return nil, err
	}
	object := value.(map[string]any)
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object,
		objectmeta.ObjectMetaOptions{DropMalformedFields: request.Drop, ReturnUnknownFieldPaths: true})
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	if request.Drop {
		// Field by field, upstream walks a map.
		sort.Strings(unknown)
	}
	unknown = append(unknown, pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
	failure, paths := objectmeta.CoerceWithOptions(nil, object, structural, false,
		objectmeta.CoerceOptions{DropInvalidFields: request.Drop, ReturnUnknownFieldPaths: true})
	if failure != nil {
		return map[string]any{"failed": true}, nil
	}
	unknown = append(unknown, paths...)
	if found {
		if request.Drop && meta.Generation == 0 {
			meta.Generation = 1
		}
		if err := objectmeta.SetObjectMeta(object, meta); err != nil {
			return nil, err
		}
	}
	defaulting.Default(object, structural)
	texts := []string{}
	for _, path := range unknown {
		texts = append(texts, fmt.Sprintf(`unknown field "%s"`, path))
	}
	return map[string]any{"object": object, "unknown": texts}, nil
}

// crdOrder gives the orders in which upstream lists the errors of an object: one, unless it walked a map with several of them.
func crdOrder(line []byte) (any, error) {
	seen := map[string]bool{}
	orders := []any{}
	for i := 0; i < 24; i++ {
		answer, err := crdObject(line)
		if err != nil {
			return nil, err
		}
		text, _ := json.Marshal(answer)
		if !seen[string(text)] {
			seen[string(text)] = true
			orders = append(orders, answer)
		}
		if len(orders) > 1 {
			break
		}
	}
	return orders, nil
}
