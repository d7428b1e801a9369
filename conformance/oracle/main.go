// The oracle answers questions about Kubernetes by calling Kubernetes' own code.
//
// It reads one JSON object per line, {"op": "...", ...}, and writes one JSON object per line. An op that panics answers
// {"panic": "..."}. Where upstream's answer depends on the random order of Go's maps, an op can be asked for several runs, and
// answers with every outcome it saw.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	kjson "sigs.k8s.io/json"
)

// An operation takes the whole line and returns what to answer.
type operation func(line []byte) (any, error)

// Each file registers its own in an init function, so that files can be added without touching this one.
var operations = map[string]operation{}

func register(name string, op operation) {
	if _, taken := operations[name]; taken {
		panic("two operations called " + name)
	}
	operations[name] = op
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			answer, err := json.Marshal(answer(line))
			if err != nil {
				answer, _ = json.Marshal(map[string]any{"broken": err.Error()})
			}
			out.Write(answer)
			out.WriteByte('\n')
			if in.Buffered() == 0 {
				out.Flush()
			}
		}
		if err != nil {
			break
		}
	}
	out.Flush()
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

// decode reads JSON as the API server does: integers stay integers.
func decode(raw json.RawMessage) (any, error) {
	var value any
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value)
	return value, err
}

func decodeMap(raw json.RawMessage) (map[string]any, error) {
	value := map[string]any{}
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &value)
	return value, err
}

// outcomes runs a function several times and returns each distinct answer once.
func outcomes(runs int, run func() any) (all []json.RawMessage) {
	seen := map[string]bool{}
	for i := 0; i < runs; i++ {
		encoded, err := json.Marshal(func() (result any) {
			defer func() {
				if reason := recover(); reason != nil {
					result = map[string]any{"panic": true}
				}
			}()
			return run()
		}())
		if err != nil {
			encoded, _ = json.Marshal(map[string]any{"broken": err.Error()})
		}
		if !seen[string(encoded)] {
			seen[string(encoded)] = true
			all = append(all, encoded)
		}
	}
	return all
}
