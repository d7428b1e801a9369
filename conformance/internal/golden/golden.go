// Package golden keeps recorded answers in files, and shows how others differ from them.
package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// An Answer is what was asked, under a name, and what came of it, in a form that can be compared.
type Answer struct {
	Name    string
	Request string
	Text    string
}

// Write records answers in folder/golden/name.txt.
func Write(folder, name string, answers []Answer) error {
	var text strings.Builder
	for _, answer := range answers {
		fmt.Fprintf(&text, "=== %s\n%s", answer.Name, answer.Text)
	}
	return os.WriteFile(filepath.Join(folder, "golden", name+".txt"), []byte(text.String()), 0o644)
}

// Read returns recorded answers by their names.
func Read(folder, name string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "golden", name+".txt"))
	if err != nil {
		return nil, err
	}
	recorded := map[string]string{}
	for _, part := range strings.Split("\n"+string(content), "\n=== ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		if rest != "" && !strings.HasSuffix(rest, "\n") {
			rest += "\n"
		}
		recorded[title] = rest
	}
	return recorded, nil
}

// Differs reads lines of the form "script: question | reason".
func Differs(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	meant := map[string]string{}
	for _, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, reason, found := strings.Cut(line, " | ")
		if !found {
			return nil, fmt.Errorf("differs.txt: %q has no reason", line)
		}
		meant[strings.TrimSpace(key)] = reason
	}
	return meant, nil
}

// Difference shows the lines that only one of the two texts has around the first and the last of them.
func Difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for _, step := range diffLines(a, b) {
		out.WriteString("    " + step + "\n")
	}
	return out.String()
}

// diffLines is the textbook longest common subsequence, with two lines of context.
func diffLines(a, b []string) []string {
	const most = 3000
	if len(a) > most || len(b) > most {
		a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	}
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var lines []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, "  "+a[i])
			i, j = i+1, j+1
		case j >= len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			lines = append(lines, "- "+a[i])
			i++
		default:
			lines = append(lines, "+ "+b[j])
			j++
		}
	}
	return withContext(lines, 2)
}

func withContext(lines []string, around int) []string {
	keep := map[int]bool{}
	for i, line := range lines {
		if line[0] != ' ' {
			for k := i - around; k <= i+around; k++ {
				keep[k] = true
			}
		}
	}
	var indexes []int
	for i := range keep {
		if i >= 0 && i < len(lines) {
			indexes = append(indexes, i)
		}
	}
	sort.Ints(indexes)
	var out []string
	previous := -1
	for _, i := range indexes {
		if i != previous+1 {
			out = append(out, "  ...")
		}
		out = append(out, lines[i])
		previous = i
	}
	return out
}
