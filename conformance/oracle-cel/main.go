// Command oracle-cel answers what Kubernetes' own CEL stack says: one JSON request per line on stdin, one JSON answer per line on stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// request is the union of what the operations take.
type request struct {
	Op      string          `json:"op"`
	Expr    string          `json:"expr,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Root    bool            `json:"root,omitempty"`
	Self    json.RawMessage `json:"self,omitempty"`
	Old     json.RawMessage `json:"old,omitempty"`
	HasOld  bool            `json:"hasOld,omitempty"`
	Limit   *uint64         `json:"limit,omitempty"`
	Budget  int64           `json:"budget,omitempty"`
	Ratchet bool            `json:"ratchet,omitempty"`
	Path    string          `json:"path,omitempty"`
}

type answer map[string]any

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			body, encodeErr := json.Marshal(handle(line))
			if encodeErr != nil {
				body, _ = json.Marshal(answer{"fault": encodeErr.Error()})
			}
			out.Write(body)
			out.WriteByte('\n')
			if in.Buffered() == 0 {
				out.Flush()
			}
		}
		if err != nil {
			return
		}
	}
}

func handle(line []byte) (result answer) {
	defer func() {
		if r := recover(); r != nil {
			result = answer{"panic": fmt.Sprint(r)}
		}
	}()
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return answer{"fault": err.Error()}
	}
	switch req.Op {
	case "eval":
		return eval(&req)
	case "rules":
		return rules(context.Background(), &req)
	case "vectors":
		return vectors(req.Path)
	case "crd":
		return crd(req.Path)
	}
	return answer{"fault": "unknown op " + req.Op}
}

// decode reads JSON as the API server does: whole numbers are int64, the rest float64.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var value any
	err := utiljson.Unmarshal(raw, &value)
	return value, err
}
