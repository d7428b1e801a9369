package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

type server struct {
	beside, version string
	flags           map[string][]string
	how             behaviour
	began           time.Time

	serverAuthority, clientAuthority, serving, administrator *identity

	mutex    sync.Mutex
	children []*exec.Cmd
	stopping bool
	reported time.Time // when the kubelet said something last
	isStale  bool      // whether that was in an earlier start
}

func (s *server) flag(name string) string {
	if all := s.flags[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

func (s *server) is(name string) bool {
	_, err := os.Stat(filepath.Join(s.beside, name))
	return err == nil
}

func (s *server) start() error {
	data := s.flag("data-dir")
	if data == "" || s.flag("write-kubeconfig") == "" || s.flag("https-listen-port") == "" || s.flag("config") == "" {
		return errors.New("the stand-in writes nowhere but where it is told: --config, --data-dir, --write-kubeconfig and --https-listen-port")
	}
	if _, err := os.Stat(s.flag("config")); err != nil {
		return err
	}
	folder := filepath.Join(data, "server", "tls")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := s.note(filepath.Join(data, "starts")); err != nil {
		return err
	}
	if err := s.identities(folder); err != nil {
		return err
	}
	if err := s.checkBundle(); err != nil {
		return err
	}
	s.recall()
	time.Sleep(time.Duration(s.how.ServesAfter) * time.Millisecond)
	switch s.how.Mode {
	case "plain":
		if err := s.servePlainly(); err != nil {
			return err
		}
		if err := s.writeKubeconfig(); err != nil {
			return err
		}
		go s.runKubelet()
		return s.noteReady()
	case "control-plane":
		if err := s.startControlPlane(data); err != nil {
			return err
		}
		if err := s.writeKubeconfig(); err != nil {
			return err
		}
		go s.runKubelet()
		go s.keepNode()
		return nil
	}
	return fmt.Errorf("no such mode: %q", s.how.Mode)
}

// note writes down which release used the data, as a cluster's own data would tell.
func (s *server) note(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, s.version)
	return err
}

// noteReady writes down how long it took until it was healthy and had a node that was ready, in milliseconds: the time that is the control plane's own.
func (s *server) noteReady() error {
	took := strconv.FormatInt(max(time.Since(s.began).Milliseconds(), int64(s.how.NodeAfter)), 10)
	return os.WriteFile(filepath.Join(s.flag("data-dir"), "took"), []byte(took), 0o600)
}

func (s *server) identities(folder string) (err error) {
	ahead := time.Duration(s.how.ClockAhead) * time.Millisecond
	if s.how.ClockAheadOnce && s.is("was-ahead") {
		ahead = 0
	}
	if s.serverAuthority, err = obtain(folder, "server-ca", nil, 3650, ahead, authority("k3s-server-ca")); err != nil {
		return err
	}
	if s.clientAuthority, err = obtain(folder, "client-ca", nil, 3650, ahead, authority("k3s-client-ca")); err != nil {
		return err
	}
	addresses := append([]string{"127.0.0.1", s.flag("bind-address"), "10.43.0.1"}, s.flags["tls-san"]...)
	if s.serving, err = obtain(folder, "serving", s.serverAuthority, s.how.CertificateDays, ahead, serving(addresses)); err != nil {
		return err
	}
	if s.administrator, err = obtain(folder, "client-admin", s.clientAuthority, s.how.CertificateDays, ahead, administrator()); err != nil {
		return err
	}
	// Beside the program, since the data may be forgotten.
	return os.WriteFile(filepath.Join(s.beside, "was-ahead"), nil, 0o600)
}

func (s *server) address() string {
	return net.JoinHostPort(s.flag("bind-address"), s.flag("https-listen-port"))
}

func (s *server) writeKubeconfig() error {
	encode := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf(`apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: %s
    server: https://%s
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
users:
- name: default
  user:
    client-certificate-data: %s
    client-key-data: %s
`, encode(s.serverAuthority.chain), s.address(), encode(s.administrator.chain), encode(s.administrator.keyPEM))
	mode, err := strconv.ParseUint(s.flag("write-kubeconfig-mode"), 8, 32)
	if err != nil {
		mode = 0o600
	}
	return os.WriteFile(s.flag("write-kubeconfig"), []byte(text), os.FileMode(mode))
}

// servePlainly answers the few questions that tests ask.
func (s *server) servePlainly() error {
	clients := x509.NewCertPool()
	clients.AddCert(s.clientAuthority.certificate)
	pair, err := tls.X509KeyPair(s.serving.chain, s.serving.keyPEM)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.address())
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.VerifyClientCertIfGiven,
		NextProtos: []string{"h2", "http/1.1"}}
	answer := &http.Server{Handler: http.HandlerFunc(s.answer), TLSConfig: config, ErrorLog: nil}
	go func() { fatal(answer.ServeTLS(listener, "", "")) }()
	return nil
}

func (s *server) answer(to http.ResponseWriter, request *http.Request) {
	for s.is("hang") {
		select {
		case <-request.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	tell := func(code int, body any) {
		to.Header().Set("Content-Type", "application/json")
		to.WriteHeader(code)
		_ = json.NewEncoder(to).Encode(body)
	}
	refuse := func(code int, reason string) {
		tell(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason})
	}
	if len(request.TLS.PeerCertificates) == 0 {
		refuse(401, "Unauthorized")
		return
	}
	resource := func(name, kind string, namespaced bool) map[string]any {
		return map[string]any{"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": []string{"get", "list"}}
	}
	list := func(kind string, items ...any) map[string]any {
		if items == nil {
			items = []any{}
		}
		return map[string]any{"kind": kind, "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
	}
	switch request.URL.Path {
	case "/healthz", "/readyz", "/livez":
		if s.is("sick") {
			refuse(500, "InternalError")
			return
		}
		_, _ = io.WriteString(to, "ok")
	case "/version":
		tell(200, map[string]any{"major": "1", "minor": "34", "gitVersion": s.version, "platform": "linux/amd64"})
	case "/api":
		tell(200, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case "/apis":
		version := map[string]any{"groupVersion": "coordination.k8s.io/v1", "version": "v1"}
		tell(200, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{
			map[string]any{"name": "coordination.k8s.io", "versions": []any{version}, "preferredVersion": version}}})
	case "/apis/coordination.k8s.io/v1":
		tell(200, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "coordination.k8s.io/v1",
			"resources": []any{resource("leases", "Lease", true)}})
	case "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases":
		leases := list("LeaseList")
		leases["apiVersion"] = "coordination.k8s.io/v1"
		if s.node() != nil {
			leases["items"] = []any{s.lease()}
		}
		tell(200, leases)
	case "/api/v1":
		tell(200, map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
			resource("nodes", "Node", false), resource("namespaces", "Namespace", false), resource("pods", "Pod", true)}})
	case "/api/v1/nodes":
		if node := s.node(); node != nil {
			tell(200, list("NodeList", node))
		} else {
			tell(200, list("NodeList"))
		}
	case "/api/v1/namespaces":
		var namespaces []any
		for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
			namespaces = append(namespaces, map[string]any{"metadata": map[string]any{"name": name}})
		}
		tell(200, list("NamespaceList", namespaces...))
	case "/api/v1/namespaces/default/pods":
		tell(200, list("PodList"))
	default:
		refuse(404, "NotFound")
	}
}

func (s *server) run(name string, arguments ...string) error {
	command := exec.Command(filepath.Join(s.how.Bin, name), arguments...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	// They end with us, however we end.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	s.mutex.Lock()
	s.children = append(s.children, command)
	s.mutex.Unlock()
	go func() {
		err := command.Wait()
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.stopping {
			return
		}
		fatal(fmt.Errorf("%s ended: %v", name, err))
	}()
	return nil
}

func (s *server) startControlPlane(data string) error {
	free := func() string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fatal(err)
		}
		defer listener.Close()
		return "http://" + listener.Addr().String()
	}
	etcd, peers := free(), free()
	if err := s.run("etcd", "--data-dir", filepath.Join(data, "server", "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers,
		"--unsafe-no-fsync", "--log-level", "error"); err != nil {
		return err
	}
	return s.run("kube-apiserver", "--etcd-servers="+etcd, "--bind-address="+s.flag("bind-address"), "--secure-port="+s.flag("https-listen-port"),
		"--advertise-address="+s.flag("advertise-address"), "--tls-cert-file="+s.serving.certificatePath, "--tls-private-key-file="+s.serving.keyPath,
		"--client-ca-file="+s.clientAuthority.certificatePath, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.43.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+s.serving.certificatePath,
		"--service-account-signing-key-file="+s.serving.keyPath, "--endpoint-reconciler-type=none", "--cert-dir="+filepath.Join(data, "server"),
		"--profiling=false", "--v=0")
}

// keepNode tells a real API what the kubelet says: it makes the node and its lease, and keeps them. What an earlier start left there stays as it is
// until then.
func (s *server) keepNode() {
	roots := x509.NewCertPool()
	roots.AddCert(s.serverAuthority.certificate)
	pair, err := tls.X509KeyPair(s.administrator.chain, s.administrator.keyPEM)
	if err != nil {
		fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	nodes := "https://" + s.address() + "/api/v1/nodes"
	call := func(method, url, kind string, body any) int {
		text, err := json.Marshal(body)
		if err != nil {
			fatal(err)
		}
		request, err := http.NewRequest(method, url, bytes.NewReader(text))
		if err != nil {
			fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		response, err := client.Do(request)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	leases := "https://" + s.address() + "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	for noted := false; ; {
		if reported, isStale := s.lastReport(); reported.IsZero() || isStale {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if call("PATCH", leases+"/"+s.flag("node-name"), "application/merge-patch+json", map[string]any{"spec": s.lease()["spec"]}) == 404 {
			call("POST", leases, "application/json", s.lease())
		}
		isReady := !s.is("unready")
		status := call("PATCH", nodes+"/"+s.flag("node-name")+"/status", "application/merge-patch+json",
			map[string]any{"status": s.node()["status"]})
		switch status {
		case 404:
			node := s.node()
			// The API gives each object its own.
			delete(node["metadata"].(map[string]any), "uid")
			call("POST", nodes, "application/json", node)
		case 200:
			if isReady && !noted && call("GET", "https://"+s.address()+"/healthz", "", nil) == 200 {
				if err := s.noteReady(); err != nil {
					fatal(err)
				}
				noted = true
			}
			time.Sleep(20 * time.Millisecond)
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (s *server) stop() {
	s.mutex.Lock()
	children := s.children
	s.stopping = true
	s.mutex.Unlock()
	for index := len(children) - 1; index >= 0; index-- {
		_ = children[index].Process.Kill()
	}
}
