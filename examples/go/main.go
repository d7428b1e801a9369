// sums adds up the numbers of Sum objects: a controller in Go, in a process of its own, beside the daemon or any other
// Kubernetes API.
//
//	go run . -kubeconfig "$(rdd svc paths config)"
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/yaml"
)

// One owner for all that this controller writes.
const fieldManager = "sums-controller"

//go:embed crd.yaml
var definition []byte

var (
	sums        = schema.GroupVersionResource{Group: "hello.example.com", Version: "v1", Resource: "sums"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "the daemon's kubeconfig; `rdd svc paths config` prints where it is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	told := ""
	for ctx.Err() == nil {
		err := beside(ctx, *kubeconfig)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err.Error() != told {
			told = err.Error()
			log.Printf("trying again every second: %v", err)
		}
		pause(ctx, time.Second)
	}
}

// beside works until ctx ends or the kubeconfig changes: every start of the daemon has tokens of its own.
func beside(ctx context.Context, kubeconfig string) error {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			pause(ctx, 500*time.Millisecond)
			if now, err := os.ReadFile(kubeconfig); err == nil && !bytes.Equal(now, text) {
				log.Print("the daemon has started anew")
				return
			}
		}
	}()
	if err := define(ctx, client); err != nil {
		return fmt.Errorf("define sums: %w", err)
	}
	return run(ctx, client)
}

// define puts the definition in place and waits until it is served.
func define(ctx context.Context, client dynamic.Interface) error {
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(definition, &object.Object); err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := client.Resource(definitions).Apply(ctx, object.GetName(), &object, options); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(sums).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// run reconciles one object after the other until ctx ends.
func run(ctx context.Context, client dynamic.Interface) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(sums).Informer()
	wake := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    wake,
		UpdateFunc: func(_, object any) { wake(object) },
		DeleteFunc: wake,
	})
	if err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	log.Print("ready")
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		if err := reconcile(ctx, client, informer.GetStore(), key); err != nil {
			log.Printf("%s: %v", key, err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// reconcile makes the status of one object match its spec. It may be cut off anywhere and begins anew.
func reconcile(ctx context.Context, client dynamic.Interface, store cache.Store, key string) error {
	found, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	sum := found.(*unstructured.Unstructured)
	status := plan(sum)
	if status == nil {
		return nil
	}
	change := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sum.GetAPIVersion(),
		"kind":       sum.GetKind(),
		// With its uid, nothing is written to a namesake that took its place.
		"metadata": map[string]any{"name": sum.GetName(), "namespace": sum.GetNamespace(), "uid": string(sum.GetUID())},
		"status":   status,
	}}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	_, err = client.Resource(sums).Namespace(sum.GetNamespace()).ApplyStatus(ctx, sum.GetName(), change, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// plan decides without doing anything: the status that is to be written, or nil if it is there already.
func plan(sum *unstructured.Unstructured) map[string]any {
	numbers, _, _ := unstructured.NestedSlice(sum.Object, "spec", "numbers")
	var total int64
	for _, number := range numbers {
		if number, is := number.(int64); is {
			total += number
		}
	}
	known, written, _ := unstructured.NestedInt64(sum.Object, "status", "total")
	seen, _, _ := unstructured.NestedInt64(sum.Object, "status", "observedGeneration")
	if written && known == total && seen == sum.GetGeneration() {
		return nil
	}
	return map[string]any{"total": total, "observedGeneration": sum.GetGeneration()}
}

func pause(ctx context.Context, atMost time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(atMost):
	}
}
