package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// heard counts what an informer says.
type heard struct{ added, updated, deleted atomic.Int32 }

func (h *heard) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { h.added.Add(1) },
		UpdateFunc: func(any, any) { h.updated.Add(1) },
		DeleteFunc: func(any) { h.deleted.Add(1) },
	}
}

// asked remembers the queries that a client made.
type asked struct {
	mutex   sync.Mutex
	queries []string
	next    http.RoundTripper
}

func (a *asked) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mutex.Lock()
	a.queries = append(a.queries, request.URL.RawQuery)
	a.mutex.Unlock()
	return a.next.RoundTrip(request)
}

func sharedInformer(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	for _, name := range []string{"seen-a", "seen-b"} {
		if _, err := maps.Create(ctx, configMap(name, map[string]string{"set": "seen"}), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	record := &asked{}
	config := rest.CopyConfig(clients.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { record.next = next; return record })
	watching, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	selected := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "set=seen" })
	factory := informers.NewSharedInformerFactoryWithOptions(watching, 0, informers.WithNamespace(namespace), selected)
	informer := factory.Core().V1().ConfigMaps()
	events := &heard{}
	if _, err := informer.Informer().AddEventHandler(events.handler()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("the informer never had it all")
	}
	if err := eventually(ctx, "two objects", func() bool { return events.added.Load() == 2 }); err != nil {
		return err
	}
	record.mutex.Lock()
	queries := strings.Join(record.queries, "\n")
	record.mutex.Unlock()
	if !strings.Contains(queries, "sendInitialEvents=true") {
		return fmt.Errorf("it did not ask for a streamed list: %s", queries)
	}
	if strings.Contains(queries, "limit=500") {
		return fmt.Errorf("it fell back to a list: %s", queries)
	}
	if _, err := maps.Patch(ctx, "seen-a", types.MergePatchType, []byte(`{"data":{"k":"changed"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "seen-b", metav1.DeleteOptions{}); err != nil {
		return err
	}
	err = eventually(ctx, "one change and one deletion", func() bool { return events.updated.Load() == 1 && events.deleted.Load() == 1 })
	if err != nil {
		return err
	}
	cached, err := informer.Lister().ConfigMaps(namespace).Get("seen-a")
	if err != nil {
		return err
	}
	if cached.Data["k"] != "changed" {
		return fmt.Errorf("the cache has %v", cached.Data)
	}
	return nil
}

func selectingInformer(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	selected := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "mood=good" })
	factory := informers.NewSharedInformerFactoryWithOptions(clients.typed, 0, informers.WithNamespace(namespace), selected)
	informer := factory.Core().V1().ConfigMaps().Informer()
	events := &heard{}
	if _, err := informer.AddEventHandler(events.handler()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	if _, err := maps.Create(ctx, configMap("moody", map[string]string{"mood": "bad"}), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, mood := range []string{"good", "bad", "good"} {
		patch := []byte(`{"metadata":{"labels":{"mood":"` + mood + `"}}}`)
		if _, err := maps.Patch(ctx, "moody", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return eventually(ctx, "two comings and one going", func() bool {
		return events.added.Load() == 2 && events.deleted.Load() == 1 && events.updated.Load() == 0
	})
}

func indexedInformer(ctx context.Context, clients *clients) error {
	factory := informers.NewSharedInformerFactoryWithOptions(clients.typed, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	byMood := func(object any) ([]string, error) { return []string{object.(*corev1.ConfigMap).Labels["mood"]}, nil }
	if err := informer.AddIndexers(cache.Indexers{"mood": byMood}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	found, err := informer.GetIndexer().ByIndex("mood", "good")
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d objects of a good mood", len(found))
	}
	return nil
}

func metadataInformer(ctx context.Context, clients *clients) error {
	factory := metadatainformer.NewFilteredSharedInformerFactory(clients.metadata, 0, namespace, nil)
	informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	events := &heard{}
	if _, err := informer.Informer().AddEventHandler(events.handler()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("the informer never had it all")
	}
	before := events.added.Load()
	made := configMap("meta", nil)
	if _, err := clients.typed.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "one more", func() bool { return events.added.Load() == before+1 }); err != nil {
		return err
	}
	object, err := informer.Lister().ByNamespace(namespace).Get("meta")
	if err != nil {
		return err
	}
	if _, ok := object.(*metav1.PartialObjectMetadata); !ok {
		return fmt.Errorf("%T", object)
	}
	return nil
}

func resumedWatch(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, configMap("resumed", map[string]string{"set": "resumed"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	version := made.ResourceVersion
	for i := range 3 {
		patch := []byte(fmt.Sprintf(`{"data":{"n":"%d"}}`, i))
		if _, err := maps.Patch(ctx, "resumed", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	var said []string
	for range 3 {
		watched, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "set=resumed", ResourceVersion: version})
		if err != nil {
			return err
		}
		event := <-watched.ResultChan()
		watched.Stop()
		object, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("%v", event)
		}
		version = object.ResourceVersion
		said = append(said, object.Data["n"])
	}
	if strings.Join(said, "") != "012" {
		return fmt.Errorf("heard %v", said)
	}
	return nil
}

func retryWatcher(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "set=retried"})
	if err != nil {
		return err
	}
	watching := &cache.ListWatch{WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = "set=retried"
		// So short that it ends several times meanwhile.
		second := int64(1)
		options.TimeoutSeconds = &second
		return maps.Watch(ctx, options)
	}}
	retried, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, watching)
	if err != nil {
		return err
	}
	defer retried.Stop()
	for i := range 3 {
		name := fmt.Sprintf("retried-%d", i)
		if _, err := maps.Create(ctx, configMap(name, map[string]string{"set": "retried"}), metav1.CreateOptions{}); err != nil {
			return err
		}
		select {
		case event := <-retried.ResultChan():
			object, ok := event.Object.(*corev1.ConfigMap)
			if !ok || object.Name != name {
				return fmt.Errorf("heard %v instead of %s", event, name)
			}
		case <-ctx.Done():
			return fmt.Errorf("%s was never heard of", name)
		}
		if i < 2 {
			if err := outlive(ctx, maps.Watch); err != nil {
				return err
			}
		}
	}
	return nil
}

// outlive waits as long as a watch of one second takes.
func outlive(ctx context.Context, start func(context.Context, metav1.ListOptions) (watch.Interface, error)) error {
	second := int64(1)
	watched, err := start(ctx, metav1.ListOptions{LabelSelector: "set=none", TimeoutSeconds: &second})
	if err != nil {
		return err
	}
	for range watched.ResultChan() {
	}
	return nil
}

func untilWithSync(ctx context.Context, clients *clients) error {
	maps := clients.typed.CoreV1().ConfigMaps(namespace)
	watching := cache.NewFilteredListWatchFromClient(clients.typed.CoreV1().RESTClient(), "configmaps", namespace, func(options *metav1.ListOptions) {
		options.FieldSelector = "metadata.name=awaited"
	})
	result := make(chan error, 1)
	go func() {
		_, err := watchtools.UntilWithSync(ctx, watching, &corev1.ConfigMap{}, nil, func(event watch.Event) (bool, error) {
			object, ok := event.Object.(*corev1.ConfigMap)
			return ok && object.Data["ready"] == "yes", nil
		})
		result <- err
	}()
	if _, err := maps.Create(ctx, configMap("awaited", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, "awaited", types.MergePatchType, []byte(`{"data":{"ready":"yes"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	return <-result
}
