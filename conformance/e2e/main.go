// The e2e judge runs the specs of names.txt with upstream's e2e.test and compares which pass with passing.txt.
//
//	e2e -program E2E.TEST -kubectl KUBECTL -kubeconfig FILE -report FOLDER
//
// Its exit code is 1 if a spec of passing.txt does not pass any more, or if fewer than the goal do.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// The whole run takes less.
	patience = 45 * time.Minute
	// At least so many must pass.
	goal = 60
)

func main() {
	program := flag.String("program", "", "upstream's e2e.test")
	kubectl := flag.String("kubectl", "kubectl", "the kubectl that some specs call")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	folder := flag.String("folder", ".", "where names.txt and passing.txt are")
	report := flag.String("report", os.TempDir(), "where the report and the log go")
	only := flag.String("only", "", "run only specs whose name contains this, and compare nothing")
	flag.Parse()

	names, err := readNames(filepath.Join(*folder, "names.txt"))
	if err != nil {
		fail(err)
	}
	if *only != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, *only) })
	}
	specs, err := run(*program, *kubectl, *kubeconfig, *report, names)
	if err != nil {
		fail(err)
	}
	passed := show(names, specs)
	fmt.Printf("%d of %d specs pass\n", len(passed), len(names))
	if *only != "" {
		return
	}
	expected, err := readNames(filepath.Join(*folder, "passing.txt"))
	if err != nil {
		fail(err)
	}
	if !compare(expected, passed) {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	os.Exit(2)
}

func readNames(path string) ([]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, line := range strings.Split(string(content), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names, nil
}

// A spec is what ginkgo reports of one.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

func (s spec) name() string {
	return strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
}

// run runs these specs and returns what became of them. That some fail is no error.
func run(program, kubectl, kubeconfig, report string, names []string) (map[string]spec, error) {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	file := filepath.Join(report, "report.json")
	if err := os.RemoveAll(file); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(report, "log.txt"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// No node is expected, and none is waited for.
	command := exec.CommandContext(ctx, program, "--kubeconfig="+kubeconfig, "--kubectl-path="+kubectl,
		"--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=-1", "--num-nodes=0",
		"--e2e-verify-service-account=false",
		"--dump-logs-on-failure=false", "--disable-log-dump=true",
		"--ginkgo.no-color", "--ginkgo.timeout="+patience.String(), "--ginkgo.json-report="+file,
		"--ginkgo.focus="+strings.Join(quoted, "|"))
	command.Dir, command.Stdout, command.Stderr = report, log, log
	ended := command.Run()
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s left no report (%v); its log is %s", program, ended, log.Name())
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, err
	}
	specs := map[string]spec{}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.LeafNodeType == "It" {
				specs[spec.name()] = spec
			}
		}
	}
	return specs, nil
}

// show prints what became of each spec and returns those that passed.
func show(names []string, specs map[string]spec) []string {
	var passed []string
	for _, name := range names {
		spec, known := specs[name]
		switch {
		case !known:
			fmt.Printf("unknown %s\n", name)
		case spec.State == "passed":
			fmt.Printf("ok      %s (%.1f s)\n", name, spec.RunTime.Seconds())
			passed = append(passed, name)
		default:
			message, _, _ := strings.Cut(spec.Failure.Message, "\n")
			fmt.Printf("%-7s %s: %s\n", spec.State, name, message)
		}
	}
	return passed
}

func compare(expected, passed []string) bool {
	fine := true
	for _, name := range expected {
		if !slices.Contains(passed, name) {
			fmt.Printf("FAIL it is in passing.txt and does not pass: %s\n", name)
			fine = false
		}
	}
	for _, name := range passed {
		if !slices.Contains(expected, name) {
			fmt.Printf("it passes and is not in passing.txt yet: %s\n", name)
		}
	}
	if len(passed) < goal {
		fmt.Printf("FAIL %d specs pass, and %d is the least\n", len(passed), goal)
		fine = false
	}
	return fine
}
