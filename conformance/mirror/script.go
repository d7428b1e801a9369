package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A script is a file of questions that build on each other, in a namespace of its own called mirror-<name>.
type script struct {
	name string
	// Paths of objects that the script makes outside its namespace: removed before it starts.
	clean     []string
	questions []question
}

// A question is one request, and what to do with its answer.
type question struct {
	name    string
	method  string
	path    string
	headers [][2]string
	body    string
	// Names and paths of values to keep for later questions, as $(name).
	keep [][2]string
	// As keep, and the value is replaced by $(name) wherever it shows from now on.
	alias [][2]string
	// If any, only these parts of the answer are shown.
	show []string
	// Parts of the answer that are left out.
	hide []string
	// Header lines of the answer to show besides the ordinary ones.
	headersShown []string
	// "admin", "user" or "nobody".
	as string
	// Ask again until the answer contains this text; or, for "status NNN", has this code; for "condition C", says that
	// it holds; for "not T", does not contain it.
	until string
	// How many events of a watch to read, after which it is cut.
	events int
	// Whether the answer is of no interest.
	quiet bool
}

func readScripts(folder, only string) ([]script, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var scripts []script
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if !strings.Contains(name, only) {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		parsed, err := parseScript(name, string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		scripts = append(scripts, parsed)
	}
	if len(scripts) == 0 {
		return nil, fmt.Errorf("no script in %s is called so", folder)
	}
	return scripts, nil
}

func parseScript(name, content string) (script, error) {
	parsed := script{name: name}
	parts := strings.Split("\n"+content, "\n=== ")
	for _, line := range strings.Split(parts[0], "\n") {
		if path, found := strings.CutPrefix(line, "clean "); found {
			parsed.clean = append(parsed.clean, path)
		}
	}
	names := map[string]bool{}
	for _, part := range parts[1:] {
		question, err := parseQuestion(part)
		if err != nil {
			return parsed, err
		}
		if names[question.name] {
			return parsed, fmt.Errorf("two questions are called %q", question.name)
		}
		names[question.name] = true
		parsed.questions = append(parsed.questions, question)
	}
	return parsed, nil
}

func parseQuestion(text string) (question, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	asked := question{name: strings.TrimSpace(lines[0]), as: "admin"}
	if len(lines) < 2 {
		return asked, fmt.Errorf("%q has no request", asked.name)
	}
	method, path, found := strings.Cut(lines[1], " ")
	if !found {
		return asked, fmt.Errorf("%q: %q is no request", asked.name, lines[1])
	}
	asked.method, asked.path = method, path
	for _, line := range lines[2:] {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if err := asked.directive(line); err != nil {
			return asked, fmt.Errorf("%q: %w", asked.name, err)
		}
	}
	asked.body = strings.TrimRight(body, "\n")
	// Comments between questions begin a line; no body of ours has such a line.
	if index := strings.Index("\n"+asked.body, "\n# "); index >= 0 {
		asked.body = strings.TrimRight(asked.body[:max(index-1, 0)], "\n")
	}
	return asked, nil
}

func (asked *question) directive(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	first, second, _ := strings.Cut(rest, " ")
	switch word {
	case "keep":
		asked.keep = append(asked.keep, [2]string{first, second})
	case "alias":
		asked.alias = append(asked.alias, [2]string{first, second})
	case "show":
		asked.show = append(asked.show, rest)
	case "hide":
		asked.hide = append(asked.hide, rest)
	case "header":
		asked.headersShown = append(asked.headersShown, rest)
	case "as":
		asked.as = rest
	case "until":
		asked.until = rest
	case "quiet":
		asked.quiet = true
	case "events":
		count, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		asked.events = count
	default:
		name, value, found := strings.Cut(line, ": ")
		if !found {
			return fmt.Errorf("%q is neither a header nor a directive", line)
		}
		asked.headers = append(asked.headers, [2]string{name, value})
	}
	return nil
}
