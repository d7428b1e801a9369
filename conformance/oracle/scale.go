package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func init() {
	register("scale", scaleEntries)
}

// scaleEntries translates owners between a resource and its scale subresource.
func scaleEntries(line []byte) (any, error) {
	var request struct {
		Parent   []metav1.ManagedFieldsEntry `json:"parent"`
		Scale    []metav1.ManagedFieldsEntry `json:"scale"`
		Version  string                      `json:"version"`
		Replicas map[string][]string         `json:"replicas"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	version, err := schema.ParseGroupVersion(request.Version)
	if err != nil {
		return nil, err
	}
	mappings := managedfields.ResourcePathMappings{}
	for version, names := range request.Replicas {
		var path fieldpath.Path
		for _, name := range names {
			path = append(path, fieldpath.FieldNameElement(name))
		}
		mappings[version] = path
	}
	handler := managedfields.NewScaleHandler(request.Parent, version, mappings)
	toScale, err := handler.ToSubresource()
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	toParent, err := handler.ToParent(request.Scale)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"scale": toScale, "parent": toParent}, nil
}
