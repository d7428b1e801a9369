// The kubectl judge runs the steps of steps.txt with one kubectl and compares what it prints with what it printed against
// kube-apiserver.
//
//	kubectl -kubectl PATH -kubeconfig FILE -record    writes golden/<minor version>.txt
//	kubectl -kubectl PATH -kubeconfig FILE            compares; exit code 1 if a step went otherwise
//
// The golden file of the newest version is whole; those of the others have only the steps that differ from it. A version
// that was not recorded must end every step as the newest one does, and may word its output otherwise.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"rdd/conformance/internal/golden"
)

const (
	// The version whose golden file is whole.
	whole = "v1.35"
	// No step takes longer.
	patience = 60 * time.Second
)

func main() {
	program := flag.String("kubectl", "kubectl", "the kubectl to run")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the server")
	folder := flag.String("folder", ".", "where steps.txt, fixtures/ and golden/ are")
	record := flag.Bool("record", false, "write the golden file of this kubectl instead of comparing")
	flag.Parse()

	place, err := newPlace(*program, *kubeconfig, *folder)
	if err != nil {
		fail(err)
	}
	defer os.RemoveAll(place.folder)
	version, err := place.version()
	if err != nil {
		fail(err)
	}
	steps, err := readSteps(filepath.Join(*folder, "steps.txt"))
	if err != nil {
		fail(err)
	}
	var answers []golden.Answer
	for _, step := range steps {
		answers = append(answers, place.run(step))
	}
	if *record {
		err = save(*folder, version, answers)
	} else {
		err = compare(*folder, version, answers)
	}
	if err != nil {
		os.RemoveAll(place.folder)
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubectl judge:", err)
	os.Exit(1)
}

type step struct {
	name     string
	commands string
}

func readSteps(path string) ([]step, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, part := range strings.Split(string(content), "\n=== ")[1:] {
		name, commands, _ := strings.Cut(part, "\n")
		steps = append(steps, step{name: name, commands: strings.TrimSpace(commands)})
	}
	return steps, nil
}

// A place is a folder in which the steps run, with a kubeconfig and a cache of its own.
type place struct {
	folder  string
	program string
	server  string
}

func newPlace(program, kubeconfig, source string) (*place, error) {
	program, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "judge")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	// Steps change it.
	if err := os.WriteFile(filepath.Join(folder, "kubeconfig"), content, 0o600); err != nil {
		return nil, err
	}
	fixtures, err := filepath.Abs(filepath.Join(source, "fixtures"))
	if err != nil {
		return nil, err
	}
	if err := os.Symlink(fixtures, filepath.Join(folder, "fixtures")); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(program, filepath.Join(folder, "bin", "kubectl")); err != nil {
		return nil, err
	}
	server := regexp.MustCompile(`https://[0-9.:]+`).FindString(string(content))
	return &place{folder: folder, program: program, server: server}, nil
}

func (p *place) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = p.folder
	command.Env = []string{
		"PATH=" + filepath.Join(p.folder, "bin") + ":" + os.Getenv("PATH"),
		"HOME=" + p.folder,
		"KUBECONFIG=" + filepath.Join(p.folder, "kubeconfig"),
		"LC_ALL=C",
	}
	command.WaitDelay = time.Second
	return command
}

// version is the major and minor version of the kubectl.
func (p *place) version() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	output, err := p.command(ctx, p.program, "version", "--client", "-o", "json").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", p.program, err)
	}
	var told struct{ ClientVersion struct{ GitVersion string } }
	if err := json.Unmarshal(output, &told); err != nil {
		return "", err
	}
	found := regexp.MustCompile(`^v\d+\.\d+`).FindString(told.ClientVersion.GitVersion)
	if found == "" {
		return "", fmt.Errorf("%s says that its version is %q", p.program, told.ClientVersion.GitVersion)
	}
	return found, nil
}

func (p *place) run(step step) golden.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := p.command(ctx, "/bin/sh", "-c", step.commands)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	code := "0"
	if err := command.Run(); err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	text := "exit " + code + "\n" + p.normal(stdout.String())
	if complaint := p.normal(stderr.String()); complaint != "" {
		text += "-- stderr\n" + complaint
	}
	return golden.Answer{Name: step.name, Request: strings.ReplaceAll(step.commands, "\n", "\n  "), Text: text}
}

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment  = regexp.MustCompile(`20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	version = regexp.MustCompile(`(resourceVersion"?: ?"|Resource Version: +)(\d+)`)
	spaces  = regexp.MustCompile(`[ \t]{2,}`)
	ending  = regexp.MustCompile(`(?m)[ \t]+$`)
	age     = regexp.MustCompile(`(?m) \d+[smh](\d+s)?(  |$)`)
	klog    = regexp.MustCompile(`(?m)^([EWI])\d{4} [0-9:.]+ +\d+ ([a-z_]+\.go):\d+\]`)
	build   = regexp.MustCompile(`v1\.\d+\.\d+[-+a-zA-Z0-9.]*`)
)

// normal replaces what differs from run to run. Columns are as wide as their widest value, so their width is not kept.
func (p *place) normal(text string) string {
	text = strings.ReplaceAll(text, p.folder, "<folder>")
	text = strings.ReplaceAll(text, p.server, "<server>")
	text = strings.ReplaceAll(text, strings.TrimPrefix(p.server, "https://"), "<server>")
	text = uid.ReplaceAllString(text, "<uid>")
	text = moment.ReplaceAllString(text, "<time>")
	text = version.ReplaceAllString(text, "$1<version>")
	text = klog.ReplaceAllString(text, "$1 $2]")
	text = build.ReplaceAllString(text, "<build>")
	text = ending.ReplaceAllString(text, "")
	text = keepIndent(text)
	text = age.ReplaceAllString(text, " <age>$2")
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n"
	}
	return text
}

// keepIndent makes one of several spaces, except at the beginning of a line.
func keepIndent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		trimmed := strings.TrimLeft(line, " ")
		lines[i] = line[:len(line)-len(trimmed)] + spaces.ReplaceAllString(trimmed, "  ")
	}
	return strings.Join(lines, "\n")
}

func save(folder, version string, answers []golden.Answer) error {
	if version != whole {
		recorded, err := golden.Read(folder, whole)
		if err != nil {
			return err
		}
		var different []golden.Answer
		for _, answer := range answers {
			if recorded[answer.Name] != answer.Text {
				different = append(different, answer)
			}
		}
		answers = different
	}
	fmt.Printf("recorded %s: %d steps\n", version, len(answers))
	return golden.Write(folder, version, answers)
}

func compare(folder, version string, answers []golden.Answer) error {
	recorded, err := golden.Read(folder, whole)
	if err != nil {
		return err
	}
	own, err := golden.Read(folder, version)
	isRecorded := err == nil
	wrong := 0
	for _, answer := range answers {
		want, known := own[answer.Name]
		if !known {
			want, known = recorded[answer.Name]
		}
		got := answer.Text
		if !isRecorded {
			want, _, _ = strings.Cut(want, "\n")
			got, _, _ = strings.Cut(got, "\n")
		}
		if !known || want != got {
			fmt.Printf("FAIL %s\n  %s\n%s", answer.Name, answer.Request, golden.Difference(want, answer.Text))
			wrong++
		}
	}
	fmt.Printf("kubectl %s: %d steps, %d went otherwise\n", version, len(answers), wrong)
	if wrong > 0 {
		return fmt.Errorf("%d of %d steps of kubectl %s went otherwise than against kube-apiserver", wrong, len(answers), version)
	}
	return nil
}
