// The client-go judge uses one API server the way controllers do, and prints a line for each thing that works.
//
//	client-go -kubeconfig FILE [-protobuf] [-only WORDS]
//
// Its exit code is 1 if anything does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// One check takes at most this long.
	patience  = 30 * time.Second
	namespace = "client-go"
)

// clients are all ways to talk to the one server.
type clients struct {
	config      *rest.Config
	typed       kubernetes.Interface
	dynamic     dynamic.Interface
	metadata    metadata.Interface
	definitions apiextensions.Interface
}

type check struct {
	name string
	run  func(context.Context, *clients) error
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	only := flag.String("only", "", "run only the checks that have these words in their names")
	protobuf := flag.Bool("protobuf", false, "speak protobuf where the server does, as typed clients do unless they are told not to")
	flag.Parse()
	clients, err := connect(*kubeconfig, *protobuf)
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
	failed, chosen := 0, 0
	for _, check := range checks() {
		if !strings.Contains(check.name, *only) {
			continue
		}
		chosen++
		if err := once(check, clients); err != nil {
			fmt.Printf("FAIL %s: %v\n", check.name, err)
			failed++
		} else {
			fmt.Printf("ok   %s\n", check.name)
		}
	}
	if failed > 0 || chosen == 0 {
		fmt.Fprintf(os.Stderr, "client-go: %d of %d checks failed\n", failed, chosen)
		os.Exit(1)
	}
}

func once(check check, clients *clients) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return check.run(ctx, clients)
}

func checks() []check {
	return []check{
		{"a namespace is made", makeNamespace},
		{"typed clients create, read, change and remove", typedClient},
		{"conflicts are told apart from other errors", conflicts},
		{"lists come in pages", pages},
		{"lists go on after their version is told", listsAtAVersion},
		{"a shared informer has what there is and hears what happens, by a streamed list", sharedInformer},
		{"an informer with a selector sees objects come and go", selectingInformer},
		{"a lister by an index finds objects", indexedInformer},
		{"a metadata informer sees metadata only", metadataInformer},
		{"a dynamic informer sees custom resources", dynamicInformer},
		{"dynamic clients create, patch and delete custom resources", dynamicClient},
		{"metadata clients read and delete", metadataClient},
		{"the scale client scales a custom resource", scaleClient},
		{"server-side apply with typed configurations", applyTyped},
		{"a configuration is extracted from what was applied", extractApplied},
		{"a watch is resumed where it broke off", resumedWatch},
		{"a retry watcher survives the end of its watch", retryWatcher},
		{"a wait ends when a condition holds", untilWithSync},
		{"one of two leads, and the other when it is gone", leaderElection},
		{"events are recorded and counted", eventRecorder},
		{"discovery finds all, in both forms", discoverAll},
		{"the mapper maps kinds to resources", restMapper},
		{"the second OpenAPI document is as protobuf what gnostic makes of its JSON", openAPI},
		{"service accounts, secrets and roles are stored", otherKinds},
	}
}

func connect(kubeconfig string, protobuf bool) (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 1000, 1000
	if !protobuf {
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	}
	all := &clients{config: config}
	if all.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if all.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if all.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	if all.definitions, err = apiextensions.NewForConfig(config); err != nil {
		return nil, err
	}
	return all, nil
}

func makeNamespace(ctx context.Context, clients *clients) error {
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := clients.typed.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	return err
}

// eventually asks until the answer is yes.
func eventually(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s", patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Data:       map[string]string{"k": name},
	}
}
