package main

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

func init() {
	register("yaml", readYAML)
}

// readYAML turns YAML into JSON as the API server does with a body. Keys that become the same JSON key come out in the random
// order of Go's maps, so that there may be several answers.
func readYAML(line []byte) (any, error) {
	var request struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	text := []byte(request.Text)
	return map[string]any{
		"loose":  outcomes(3, func() any { return answerYAML(yaml.YAMLToJSON(text)) }),
		"strict": outcomes(1, func() any { return answerYAML(yaml.YAMLToJSONStrict(text)) }),
	}, nil
}

func answerYAML(read []byte, err error) any {
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"json": json.RawMessage(read)}
}
