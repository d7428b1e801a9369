package main

import (
	"context"
	"fmt"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

func typedClient(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, configMap("typed", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
		return fmt.Errorf("the server did not fill in what is its own: %+v", made.ObjectMeta)
	}
	made.Data["more"] = "x"
	changed, err := maps.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	patched, err := maps.Patch(ctx, "typed", types.StrategicMergePatchType, []byte(`{"data":{"k":null}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if patched.ResourceVersion == changed.ResourceVersion || len(patched.Data) != 1 {
		return fmt.Errorf("the patch did nothing: %v", patched.Data)
	}
	if err := maps.Delete(ctx, "typed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := maps.Get(ctx, "typed", metav1.GetOptions{}); !errors.IsNotFound(err) {
		return fmt.Errorf("it is still there: %v", err)
	}
	return nil
}

func conflicts(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, configMap("contested", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := maps.Create(ctx, configMap("contested", nil), metav1.CreateOptions{}); !errors.IsAlreadyExists(err) {
		return fmt.Errorf("a second create: %v", err)
	}
	old := made.DeepCopy()
	made.Data["a"] = "1"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Update(ctx, old, metav1.UpdateOptions{}); !errors.IsConflict(err) {
		return fmt.Errorf("an update with a version that has passed: %v", err)
	}
	invalid := configMap("Bad_Name", nil)
	if _, err := maps.Create(ctx, invalid, metav1.CreateOptions{}); !errors.IsInvalid(err) {
		return fmt.Errorf("a bad name: %v", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "contested", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["b"] = "2"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

func pages(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	for i := range 25 {
		if _, err := maps.Create(ctx, configMap(fmt.Sprintf("page-%02d", i), map[string]string{"set": "pages"}), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	seen, calls := 0, 0
	byPage := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		calls++
		return maps.List(ctx, options)
	})
	byPage.PageSize = 10
	err := byPage.EachListItem(ctx, metav1.ListOptions{LabelSelector: "set=pages"}, func(runtime.Object) error { seen++; return nil })
	if err != nil {
		return err
	}
	if seen != 25 || calls != 3 {
		return fmt.Errorf("%d objects in %d pages", seen, calls)
	}
	return nil
}

func listsAtAVersion(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	before, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "set=pages"})
	if err != nil {
		return err
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "set=pages"}); err != nil {
		return err
	}
	exact := metav1.ListOptions{LabelSelector: "set=pages", ResourceVersion: before.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	then, err := maps.List(ctx, exact)
	if err != nil {
		return err
	}
	now, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "set=pages"})
	if err != nil {
		return err
	}
	if len(then.Items) != 25 || len(now.Items) != 0 {
		return fmt.Errorf("%d then, %d now", len(then.Items), len(now.Items))
	}
	return nil
}

func metadataClient(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, configMap("described", map[string]string{"a": "b"}), metav1.CreateOptions{}); err != nil {
		return err
	}
	described := clients.metadata.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace)
	found, err := described.Get(ctx, "described", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if found.Labels["a"] != "b" || found.UID == "" {
		return fmt.Errorf("%+v", found)
	}
	list, err := described.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil {
		return err
	}
	if len(list.Items) != 1 || list.Items[0].UID != found.UID {
		return fmt.Errorf("%+v", list)
	}
	if _, err := described.Patch(ctx, "described", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"c"}}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	return described.Delete(ctx, "described", metav1.DeleteOptions{})
}

func applyTyped(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	wanted := applycorev1.ConfigMap("applied", namespace).WithLabels(map[string]string{"by": "one"}).WithData(map[string]string{"a": "1", "b": "2"})
	if _, err := maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	other := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "x"})
	_, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two"})
	if !errors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .data.a`) {
		return fmt.Errorf("not a conflict: %v", err)
	}
	if _, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two", Force: true}); err != nil {
		return err
	}
	fewer := applycorev1.ConfigMap("applied", namespace).WithLabels(map[string]string{"by": "one"})
	left, err := maps.Apply(ctx, fewer, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	if len(left.Data) != 1 || left.Data["a"] != "x" {
		return fmt.Errorf("what nobody wants any more is still there: %v", left.Data)
	}
	return nil
}

func extractApplied(ctx context.Context, clients *clients) error {
	live, err := clients.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	mine, err := applycorev1.ExtractConfigMap(live, "two")
	if err != nil {
		return err
	}
	if len(mine.Data) != 1 || mine.Data["a"] != "x" || len(mine.Labels) != 0 {
		return fmt.Errorf("%+v", mine)
	}
	return nil
}

func discoverAll(_ context.Context, clients *clients) error {
	aggregated, resources, err := clients.typed.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	plain := discovery.NewDiscoveryClientForConfigOrDie(clients.config)
	plain.UseLegacyDiscovery = true
	groups, lists, err := plain.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	if len(groups) != len(aggregated) || len(lists) != len(resources) {
		return fmt.Errorf("%d groups and %d lists in one form, %d and %d in the other", len(aggregated), len(resources), len(groups), len(lists))
	}
	count := func(lists []*metav1.APIResourceList) map[string]int {
		found := map[string]int{}
		for _, list := range lists {
			found[list.GroupVersion] += len(list.APIResources)
		}
		return found
	}
	first, second := count(resources), count(lists)
	for version, number := range first {
		if second[version] != number {
			return fmt.Errorf("%s has %d resources in one form, %d in the other", version, number, second[version])
		}
	}
	version, err := clients.typed.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	if version.Major != "1" || version.Minor != "35" {
		return fmt.Errorf("%+v", version)
	}
	return nil
}

func restMapper(_ context.Context, clients *clients) error {
	groups, err := restmapper.GetAPIGroupResources(clients.typed.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), clients.typed.Discovery(), nil)
	found, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "cm"})
	if err != nil {
		return err
	}
	if found.Resource != "configmaps" {
		return fmt.Errorf("%v", found)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"})
	if err != nil {
		return err
	}
	if mapping.Scope.Name() != "root" {
		return fmt.Errorf("%v", mapping.Scope)
	}
	return nil
}

func openAPI(ctx context.Context, clients *clients) error {
	paths, err := clients.typed.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	core, known := paths["api/v1"]
	if !known {
		return fmt.Errorf("api/v1 is not in the index")
	}
	document, err := core.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	if !strings.Contains(string(document), "io.k8s.api.core.v1.ConfigMap") {
		return fmt.Errorf("no config map in %d bytes", len(document))
	}
	message, err := clients.typed.Discovery().OpenAPISchema()
	if err != nil {
		return err
	}
	text, err := clients.typed.Discovery().RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return err
	}
	parsed, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return err
	}
	return sameDocument(message, parsed)
}

// sameDocument tells where two documents begin to differ.
func sameDocument(message, parsed *openapi_v2.Document) error {
	custom := false
	definitions, wanted := message.GetDefinitions().GetAdditionalProperties(), parsed.GetDefinitions().GetAdditionalProperties()
	for i := 0; i < min(len(definitions), len(wanted)); i++ {
		if !proto.Equal(definitions[i], wanted[i]) {
			return fmt.Errorf("definition %q:\n%v\nis by gnostic\n%v", wanted[i].Name, definitions[i], wanted[i])
		}
		custom = custom || !strings.HasPrefix(wanted[i].Name, "io.k8s.")
	}
	paths, wantedPaths := message.GetPaths().GetPath(), parsed.GetPaths().GetPath()
	for i := 0; i < min(len(paths), len(wantedPaths)); i++ {
		if !proto.Equal(paths[i], wantedPaths[i]) {
			return fmt.Errorf("path %q:\n%v\nis by gnostic\n%v", wantedPaths[i].Name, paths[i], wantedPaths[i])
		}
	}
	if !proto.Equal(message, parsed) {
		return fmt.Errorf("%d definitions and %d paths differ from %d and %d, or what is beside them", len(definitions), len(paths), len(wanted), len(wantedPaths))
	}
	if !custom {
		return fmt.Errorf("no custom resource is in %d definitions", len(definitions))
	}
	return nil
}

func otherKinds(ctx context.Context, clients *clients) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "b"}}
	kept, err := clients.typed.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if string(kept.Data["a"]) != "b" || len(kept.StringData) != 0 || kept.Type != corev1.SecretTypeOpaque {
		return fmt.Errorf("%+v", kept)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := clients.typed.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}
	_, err = clients.typed.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	return err
}
