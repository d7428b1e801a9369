package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// This file is what stands in for the kubelet: what it refuses to start with, and what it says of its node.

const (
	cgroupRoot = "/sys/fs/cgroup"
	// How often the kubelet reports. A real one does so every ten seconds.
	reportEvery = 100 * time.Millisecond
)

// kubeletArgument is the value of an argument that K3s hands on to the kubelet.
func (s *server) kubeletArgument(name string) (string, bool) {
	for _, argument := range s.flags["kubelet-arg"] {
		if value, has := strings.CutPrefix(argument, name+"="); has {
			return value, true
		}
	}
	return "", false
}

// minor is the minor release of Kubernetes 1.
func (s *server) minor() int {
	parts := strings.Split(s.version, ".")
	if len(parts) < 2 {
		return 0
	}
	number, _ := strconv.Atoi(parts[1])
	return number
}

func hasCgroupV1() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err != nil
}

// checkKubelet says why the kubelet would not start: as Kubernetes 1.31 to 1.35 do.
func (s *server) checkKubelet() error {
	if s.how.KubeletError != "" {
		return errors.New(s.how.KubeletError)
	}
	fails, isSaid := s.kubeletArgument("fail-cgroupv1")
	// One that was not told its release takes what any of them takes.
	if minor := s.minor(); isSaid && minor > 0 && minor < 31 {
		return errors.New("failed to parse kubelet flag: unknown flag: --fail-cgroupv1")
	}
	if hasCgroupV1() && s.minor() >= 35 && fails != "false" {
		return errors.New("failed to validate kubelet configuration, error: kubelet is configured to not run on a host using cgroup v1")
	}
	root, isSaid := s.kubeletArgument("cgroup-root")
	if !isSaid {
		return nil
	}
	groups, err := podGroups(root)
	if err != nil {
		return fmt.Errorf("failed to run Kubelet: invalid configuration: %w", err)
	}
	for _, group := range groups {
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// podGroups are the groups below the root in which pods are; the root has to be there in each hierarchy, with processors where it has them.
func podGroups(root string) ([]string, error) {
	if !hasCgroupV1() {
		group := filepath.Join(cgroupRoot, root)
		controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
		if err != nil {
			return nil, fmt.Errorf("could not read controllers for cgroup %q: %w", root, err)
		}
		for _, name := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " "+name+" ") {
				return nil, fmt.Errorf("cgroup %q has some missing controllers: %s", root, name)
			}
		}
		return []string{filepath.Join(group, "kubepods")}, nil
	}
	var groups, missing []string
	for _, name := range []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "systemd"} {
		hierarchy := filepath.Join(cgroupRoot, name)
		if _, err := os.Stat(hierarchy); err != nil {
			continue
		}
		group := filepath.Join(hierarchy, root)
		if _, err := os.Stat(group); err != nil {
			missing = append(missing, group)
			continue
		}
		groups = append(groups, filepath.Join(group, "kubepods"))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("cgroup %q has some missing paths: %s", root, strings.Join(missing, ", "))
	}
	if processors, err := os.ReadFile(filepath.Join(cgroupRoot, "cpuset", root, "cpuset.cpus")); err == nil && strings.TrimSpace(string(processors)) == "" {
		return nil, fmt.Errorf("cgroup %q has no processors", root)
	}
	return groups, nil
}

// checkBundle says what a build of K3s misses that brings nothing of its own.
func (s *server) checkBundle() error {
	if !s.how.Unbundled {
		return nil
	}
	if _, err := exec.LookPath("host-local"); err != nil {
		return fmt.Errorf("failed to find host-local: %w", err)
	}
	return nil
}

// report is what a kubelet said last, kept with the data of the cluster.
type report struct {
	At time.Time `json:"at"`
}

func (s *server) reportPath() string {
	return filepath.Join(s.flag("data-dir"), "node-report")
}

// recall reads what the kubelet of an earlier start said: the node is as it left it until this start's says something.
func (s *server) recall() {
	var last report
	if text, err := os.ReadFile(s.reportPath()); err == nil && json.Unmarshal(text, &last) == nil {
		s.reported, s.isStale = last.At, true
	}
}

// runKubelet begins when the node is to be there, and reports for as long as K3s lives.
func (s *server) runKubelet() {
	time.Sleep(time.Until(s.began.Add(time.Duration(s.how.NodeAfter) * time.Millisecond)))
	if err := s.checkKubelet(); err != nil {
		s.endKubelet(err)
	}
	for ; ; time.Sleep(reportEvery) {
		now := time.Now()
		s.mutex.Lock()
		s.reported, s.isStale = now, false
		s.mutex.Unlock()
		text, err := json.Marshal(report{At: now})
		if err == nil {
			err = os.WriteFile(s.reportPath()+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(s.reportPath()+".new", s.reportPath())
		}
		if err != nil && !s.isStopping() {
			fatal(err)
		}
	}
}

// endKubelet ends K3s as it ends when its kubelet does: the cause comes first, and the last line says nothing of it.
func (s *server) endKubelet(cause error) {
	logError("kubelet exited: " + cause.Error())
	s.stop()
	info("Closing database connections")
	os.Exit(1)
}

// lastReport is what the node shows: when the kubelet said something last, and whether that was before this start. Zero if none ever did.
func (s *server) lastReport() (time.Time, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.reported, s.isStale
}

func (s *server) isStopping() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.stopping
}

// node is the Node as the API has it; nil if no kubelet has registered one.
func (s *server) node() map[string]any {
	reported, isStale := s.lastReport()
	if reported.IsZero() {
		return nil
	}
	status := "True"
	if !isStale && s.is("unready") {
		status = "False"
	}
	at := reported.UTC().Format(time.RFC3339)
	condition := map[string]any{"type": "Ready", "status": status, "reason": "KubeletReady", "message": "standing in",
		"lastHeartbeatTime": at, "lastTransitionTime": at}
	return map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": s.flag("node-name"), "uid": "standin"}, "spec": map[string]any{},
		"status": map[string]any{"conditions": []any{condition}, "nodeInfo": map[string]any{"kubeletVersion": s.version}},
	}
}

// lease is the Lease of the node.
func (s *server) lease() map[string]any {
	reported, _ := s.lastReport()
	name := s.flag("node-name")
	return map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name, "namespace": "kube-node-lease"},
		"spec": map[string]any{"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": reported.UTC().Format("2006-01-02T15:04:05.000000Z")},
	}
}
