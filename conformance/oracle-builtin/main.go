// The oracle answers questions about built-in kinds by calling the registry of kube-apiserver itself.
//
// It reads one JSON object per line, {"op": "...", ...}, and writes one JSON object per line. An op that panics answers
// {"panic": "..."}, a question that makes no sense {"broken": "..."}.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// An operation takes the whole line and returns what to answer.
type operation func(line []byte) (any, error)

var operations = map[string]operation{}

func register(name string, op operation) {
	operations[name] = op
}

func main() {
	// Upstream logs where its two ways of validation differ, which is not the question here.
	logging := flag.NewFlagSet("logging", flag.PanicOnError)
	klog.InitFlags(logging)
	logging.Set("stderrthreshold", "FATAL")
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			encoded, err := json.Marshal(answer(line))
			if err != nil {
				encoded, _ = json.Marshal(map[string]any{"broken": err.Error()})
			}
			out.Write(append(encoded, '\n'))
			if in.Buffered() == 0 {
				out.Flush()
			}
		}
		if err != nil {
			return
		}
	}
}

func answer(line []byte) (result any) {
	defer func() {
		if reason := recover(); reason != nil {
			result = map[string]any{"panic": fmt.Sprint(reason)}
		}
	}()
	var header struct {
		Op string `json:"op"`
	}
	if err := json.Unmarshal(line, &header); err != nil {
		return map[string]any{"broken": err.Error()}
	}
	op, ok := operations[header.Op]
	if !ok {
		return map[string]any{"broken": "unknown op " + header.Op}
	}
	result, err := op(line)
	if err != nil {
		return map[string]any{"broken": err.Error()}
	}
	return result
}
