package main

import (
	"encoding/json"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"
)

func init() {
	register("jsonpatch", jsonPatch)
	register("merge", mergePatch)
	register("strict", strictPatch)
	// kube-apiserver's default, see k8s.io/apiserver/pkg/server/config.go.
	jsonpatch.AccumulatedCopySizeLimit = 3 * 1024 * 1024
}

func jsonPatch(line []byte) (any, error) {
	var request struct {
		Document json.RawMessage `json:"document"`
		Patch    json.RawMessage `json:"patch"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(request.Patch)
	if err != nil {
		return map[string]any{"decodeError": err.Error()}, nil
	}
	result, err := patch.Apply(request.Document)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"result": json.RawMessage(result)}, nil
}

func mergePatch(line []byte) (any, error) {
	var request struct {
		Document json.RawMessage `json:"document"`
		Patch    json.RawMessage `json:"patch"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	result, err := jsonpatch.MergePatch(request.Document, request.Patch)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"result": json.RawMessage(result)}, nil
}

// jsonPatchOp is what the API server decodes an operation into when it looks for unknown fields.
// The original is not exported; its name shows in errors.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// strictPatch decodes a JSON patch and a merge patch as the API server does unless field validation is off.
func strictPatch(line []byte) (any, error) {
	var request struct {
		Patch json.RawMessage `json:"patch"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	answer := map[string]any{}
	var operations []jsonPatchOp
	strict, err := kjson.UnmarshalStrict(request.Patch, &operations)
	if err != nil {
		answer["jsonError"] = strings.ReplaceAll(err.Error(), "main.", "handlers.")
	}
	texts := []string{}
	for _, err := range strict {
		texts = append(texts, err.Error())
	}
	answer["unknown"] = texts
	fields := map[string]any{}
	if _, err := kjson.UnmarshalStrict(request.Patch, &fields); err != nil {
		answer["mergeError"] = err.Error()
	}
	return answer, nil
}
