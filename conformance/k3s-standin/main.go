// A stand-in for K3s, started exactly as K3s is: it takes the arguments that we give to K3s, keeps its data where they say, writes a kubeconfig
// where they say, and serves an API with a node. It runs no pods. What a kubelet refuses to start with it refuses as well (control groups), its node
// stays Ready in the data of a cluster that has ended, and it logs its end as K3s does.
//
// What it serves is chosen in behaviour.json beside the program: a few answers of its own ("plain", in milliseconds), or a real kube-apiserver over
// a real etcd ("control-plane"). Files beside the program change it while it runs: "hang" lets requests wait, "unready" takes the node's
// readiness away, "sick" makes it say that it is not healthy.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// behaviour is how a test wants it to be. Times are in milliseconds.
type behaviour struct {
	Mode            string `json:"mode"`
	Bin             string `json:"bin"`             // the folder with kube-apiserver and etcd, for control-plane
	NodeAfter       int    `json:"nodeAfter"`       // when the node is ready
	ServesAfter     int    `json:"servesAfter"`     // when it begins to listen
	ExitAfter       int    `json:"exitAfter"`       // when it ends by itself, if ever
	ExitWith        string `json:"exitWith"`        // its last words then
	KubeletError    string `json:"kubeletError"`    // why its kubelet ends when it starts, if it does
	Unbundled       bool   `json:"unbundled"`       // whether it brings nothing, as a build of K3s' module alone
	CertificateDays int    `json:"certificateDays"` // how long its first certificates are good
	ClockAhead      int    `json:"clockAhead"`      // how far its clock is ahead when it makes them
	ClockAheadOnce  bool   `json:"clockAheadOnce"`  // whether that is so for the first data only
}

// values are the flags of `k3s server` that take one, and switches are those that do not. K3s refuses what it does not know.
var (
	values = map[string]bool{
		"config": true, "data-dir": true, "write-kubeconfig": true, "write-kubeconfig-mode": true, "bind-address": true,
		"advertise-address": true, "node-ip": true, "tls-san": true, "https-listen-port": true, "lb-server-port": true, "node-name": true,
		"container-runtime-endpoint": true, "flannel-backend": true, "flannel-iface": true, "flannel-cni-conf": true, "kubelet-arg": true,
		"kube-proxy-arg": true, "kube-apiserver-arg": true, "kube-controller-manager-arg": true, "kube-scheduler-arg": true,
		"kube-cloud-controller-manager-arg": true, "disable": true, "cluster-cidr": true, "service-cidr": true,
	}
	switches = map[string]bool{"docker": true, "debug": true}
)

func main() {
	program, err := os.Executable()
	if err != nil {
		fatal(err)
	}
	beside := filepath.Dir(program)
	if len(os.Args) == 2 && (os.Args[1] == "--version" || os.Args[1] == "-v") {
		fmt.Printf("k3s version %s (standin)\n", version(beside))
		return
	}
	if len(os.Args) < 2 || os.Args[1] != "server" {
		fatal(fmt.Errorf("No help topic for %q", strings.Join(os.Args[1:], " ")))
	}
	flags, err := parse(os.Args[2:])
	if err != nil {
		fatal(err)
	}
	how := behaviour{Mode: "plain", CertificateDays: 365}
	if text, err := os.ReadFile(filepath.Join(beside, "behaviour.json")); err == nil {
		if err := json.Unmarshal(text, &how); err != nil {
			fatal(err)
		}
	}
	server := &server{beside: beside, version: version(beside), flags: flags, how: how, began: time.Now()}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	if how.ExitAfter > 0 {
		time.AfterFunc(time.Duration(how.ExitAfter)*time.Millisecond, func() {
			server.stop()
			fatal(fmt.Errorf("%s", how.ExitWith))
		})
	}
	if err := server.start(); err != nil {
		server.stop()
		fatal(err)
	}
	info("k3s is up and running")
	<-end
	server.stop()
}

func version(beside string) string {
	text, err := os.ReadFile(filepath.Join(beside, "version"))
	if err != nil {
		return "v0.0.0+k3s0"
	}
	return strings.TrimSpace(string(text))
}

func parse(arguments []string) (map[string][]string, error) {
	flags := map[string][]string{}
	for index := 0; index < len(arguments); index++ {
		name, value, has := strings.Cut(strings.TrimLeft(arguments[index], "-"), "=")
		switch {
		case !strings.HasPrefix(arguments[index], "-"):
			return nil, fmt.Errorf("unexpected argument %q", arguments[index])
		case switches[name]:
			flags[name] = append(flags[name], "true")
		case !values[name]:
			return nil, fmt.Errorf("flag provided but not defined: -%s", name)
		case has:
			flags[name] = append(flags[name], value)
		case index+1 < len(arguments):
			index++
			flags[name] = append(flags[name], arguments[index])
		default:
			return nil, fmt.Errorf("flag needs an argument: -%s", name)
		}
	}
	return flags, nil
}

func info(message string) {
	fmt.Fprintf(os.Stderr, "time=%q level=info msg=%q\n", time.Now().UTC().Format(time.RFC3339), message)
}

func logError(message string) {
	fmt.Fprintf(os.Stderr, "time=%q level=error msg=%q\n", time.Now().UTC().Format(time.RFC3339), message)
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "time=%q level=fatal msg=%q\n", time.Now().UTC().Format(time.RFC3339), err.Error())
	os.Exit(1)
}
