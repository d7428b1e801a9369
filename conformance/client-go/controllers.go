package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

var scrolls = schema.GroupVersionResource{Group: "client-go.judge.example", Version: "v1", Resource: "scrolls"}

// define makes sure that scrolls exist.
func define(ctx context.Context, clients *clients) (dynamic.ResourceInterface, error) {
	number := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: scrolls.Resource + "." + scrolls.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: scrolls.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "scrolls", Kind: "Scroll"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: scrolls.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec":   {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"title": {Type: "string"}, "copies": number}},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"copies": number}},
					},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.copies", StatusReplicasPath: ".status.copies"},
				},
			}},
		},
	}
	all := clients.definitions.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := all.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return nil, err
	}
	here := clients.dynamic.Resource(scrolls).Namespace(namespace)
	err := eventually(ctx, "scrolls to be served", func() bool {
		_, err := here.List(ctx, metav1.ListOptions{})
		return err == nil
	})
	return here, err
}

func scroll(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": scrolls.Group + "/" + scrolls.Version,
		"kind":       "Scroll",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"title": name, "copies": int64(1)},
	}}
}

func dynamicInformer(ctx context.Context, clients *clients) error {
	here, err := define(ctx, clients)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(clients.dynamic, 0, namespace, nil)
	informer := factory.ForResource(scrolls).Informer()
	events := &heard{}
	if _, err := informer.AddEventHandler(events.handler()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer never had it all")
	}
	if _, err := here.Create(ctx, scroll("informed"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := here.Delete(ctx, "informed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "a coming and a going", func() bool { return events.added.Load() == 1 && events.deleted.Load() == 1 })
}

func dynamicClient(ctx context.Context, clients *clients) error {
	here, err := define(ctx, clients)
	if err != nil {
		return err
	}
	made, err := here.Create(ctx, scroll("dynamic"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made.GetGeneration() != 1 {
		return fmt.Errorf("its generation is %d", made.GetGeneration())
	}
	status := []byte(`{"status":{"copies":7}}`)
	told, err := here.Patch(ctx, "dynamic", types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	copies, _, _ := unstructured.NestedInt64(told.Object, "status", "copies")
	if copies != 7 || told.GetGeneration() != 1 {
		return fmt.Errorf("%v", told.Object)
	}
	wanted := scroll("dynamic")
	if err := unstructured.SetNestedField(wanted.Object, "other", "spec", "title"); err != nil {
		return err
	}
	applied, err := here.Apply(ctx, "dynamic", wanted, metav1.ApplyOptions{FieldManager: "judge", Force: true})
	if err != nil {
		return err
	}
	if applied.GetGeneration() != 2 {
		return fmt.Errorf("its generation is %d", applied.GetGeneration())
	}
	if _, err := here.Patch(ctx, "dynamic", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}); !errors.IsUnsupportedMediaType(err) {
		return fmt.Errorf("a strategic merge patch: %v", err)
	}
	return here.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

func scaleClient(ctx context.Context, clients *clients) error {
	here, err := define(ctx, clients)
	if err != nil {
		return err
	}
	if _, err := here.Create(ctx, scroll("scaled"), metav1.CreateOptions{}); err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(clients.typed.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	kinds := scale.NewDiscoveryScaleKindResolver(clients.typed.Discovery())
	scales, err := scale.NewForConfig(clients.config, mapper, dynamic.LegacyAPIPathResolverFunc, kinds)
	if err != nil {
		return err
	}
	found, err := scales.Scales(namespace).Get(ctx, scrolls.GroupResource(), "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	found.Spec.Replicas = 5
	if _, err := scales.Scales(namespace).Update(ctx, scrolls.GroupResource(), found, metav1.UpdateOptions{}); err != nil {
		return err
	}
	object, err := here.Get(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if copies, _, _ := unstructured.NestedInt64(object.Object, "spec", "copies"); copies != 5 {
		return fmt.Errorf("%v", object.Object)
	}
	return nil
}

func leaderElection(ctx context.Context, clients *clients) error {
	leading := make(chan string, 2)
	run := func(ctx context.Context, identity string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
			Client:     clients.typed.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- identity },
				OnStoppedLeading: func() {},
			},
		})
	}
	first, resign := context.WithCancel(ctx)
	defer resign()
	go run(first, "first")
	select {
	case <-leading:
	case <-ctx.Done():
		return fmt.Errorf("nobody leads")
	}
	second, end := context.WithCancel(ctx)
	defer end()
	go run(second, "second")
	resign()
	select {
	case identity := <-leading:
		if identity != "second" {
			return fmt.Errorf("%s leads again", identity)
		}
	case <-ctx.Done():
		return fmt.Errorf("nobody follows the first")
	}
	lease, err := clients.typed.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if *lease.Spec.HolderIdentity != "second" || *lease.Spec.LeaseTransitions < 1 {
		return fmt.Errorf("%+v", lease.Spec)
	}
	return nil
}

func eventRecorder(ctx context.Context, clients *clients) error {
	about, err := clients.typed.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("eventful", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.typed.CoreV1().Events(namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "judge"})
	for range 3 {
		recorder.Event(about, corev1.EventTypeNormal, "Happened", "it happened")
	}
	return eventually(ctx, "an event that counts to three", func() bool {
		list, err := clients.typed.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=eventful"})
		return err == nil && len(list.Items) == 1 && list.Items[0].Count == 3
	})
}
