// The mirror asks an API server every question of its scripts and compares the answers with recorded ones of kube-apiserver.
//
//	mirror -server URL -ca FILE -record          writes golden/ from what this server answers
//	mirror -server URL -ca FILE                         compares; exit code 1 if an answer differs that should not
//
// Differences that we mean are named in differs.txt, with a reason. One that is no difference any more is a failure too.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"rdd/conformance/internal/golden"
)

func main() {
	server := flag.String("server", "", "address of the API server")
	authority := flag.String("ca", "", "file with the certificate to trust")
	token := os.Getenv("MIRROR_TOKEN")
	userToken := os.Getenv("MIRROR_USER_TOKEN")
	folder := flag.String("folder", ".", "where cases/, golden/ and differs.txt are")
	only := flag.String("only", "", "only scripts whose name contains this")
	record := flag.Bool("record", false, "write golden files instead of comparing")
	flag.Parse()

	client, err := newClient(*server, *authority, token, userToken)
	if err != nil {
		fail(err)
	}
	scripts, err := readScripts(filepath.Join(*folder, "cases"), *only)
	if err != nil {
		fail(err)
	}
	if *record {
		for i, answers := range runAll(client, scripts) {
			if err := golden.Write(*folder, scripts[i].name, answers); err != nil {
				fail(err)
			}
			fmt.Printf("recorded %s: %d answers\n", scripts[i].name, len(answers))
		}
		return
	}
	meant, err := golden.Differs(filepath.Join(*folder, "differs.txt"))
	if err != nil {
		fail(err)
	}
	if !compare(client, *folder, scripts, meant, *only == "") {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mirror:", err)
	os.Exit(2)
}

// runAll runs the scripts, some at a time: they have nothing in common but the server, and wait more than they work.
func runAll(client *client, scripts []script) [][]golden.Answer {
	const atOnce = 4
	answers := make([][]golden.Answer, len(scripts))
	free := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, script := range scripts {
		free <- struct{}{}
		all.Go(func() {
			answers[i] = client.run(script)
			<-free
		})
	}
	all.Wait()
	return answers
}

// compare runs the scripts and says whether every answer is as recorded or differs as it is meant to.
func compare(client *client, folder string, scripts []script, meant map[string]string, all bool) bool {
	asked, same, otherwise, wrong := 0, 0, 0, 0
	seen := map[string]bool{}
	answered := runAll(client, scripts)
	for i, script := range scripts {
		recorded, err := golden.Read(folder, script.name)
		if err != nil {
			fail(err)
		}
		unexpected := 0
		answers := answered[i]
		for _, answer := range answers {
			asked++
			key := script.name + ": " + answer.Name
			reason, isMeant := meant[key]
			seen[key] = true
			want, known := recorded[answer.Name]
			switch {
			case !known:
				fmt.Printf("FAIL %s\n  it has no recorded answer\n", key)
				unexpected++
			case want == answer.Text && isMeant:
				fmt.Printf("FAIL %s\n  it is in differs.txt (%s), but the answer is the recorded one\n", key, reason)
				unexpected++
			case want == answer.Text:
				same++
			case isMeant:
				otherwise++
			default:
				fmt.Printf("FAIL %s\n  %s\n%s", key, answer.Request, golden.Difference(want, answer.Text))
				unexpected++
			}
		}
		if len(recorded) != len(answers) {
			fmt.Printf("FAIL %s: %d answers are recorded, the script asks %d questions\n", script.name, len(recorded), len(answers))
			unexpected++
		}
		fmt.Printf("%-22s %3d questions, %d answered otherwise\n", script.name, len(answers), unexpected)
		wrong += unexpected
	}
	for key := range meant {
		if all && !seen[key] {
			fmt.Printf("FAIL %s is in differs.txt and in no script\n", key)
			wrong++
		}
	}
	fmt.Printf("%d questions: %d answered as kube-apiserver does, %d otherwise on purpose, %d otherwise\n", asked, same, otherwise, wrong)
	return wrong == 0
}
