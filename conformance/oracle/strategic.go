package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func init() {
	register("schemas", exportSchemas)
	register("strategic", strategicPatch)
}

// The types a strategic merge patch can be tried on.
var patchable = map[string]any{
	"Deployment":    &appsv1.Deployment{},
	"StatefulSet":   &appsv1.StatefulSet{},
	"Pod":           &corev1.Pod{},
	"Service":       &corev1.Service{},
	"ConfigMap":     &corev1.ConfigMap{},
	"Node":          &corev1.Node{},
	"NetworkPolicy": &networkingv1.NetworkPolicy{},
	"ClusterRole":   &rbacv1.ClusterRole{},
}

func strategicPatch(line []byte) (any, error) {
	var request struct {
		Type     string          `json:"type"`
		Original json.RawMessage `json:"original"`
		Patch    json.RawMessage `json:"patch"`
		Runs     int             `json:"runs"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(patchable[request.Type])
	if err != nil {
		return nil, err
	}
	original, err := decodeMap(request.Original)
	if err != nil {
		return nil, err
	}
	patch, err := decodeMap(request.Patch)
	if err != nil {
		return nil, err
	}
	return map[string]any{"outcomes": outcomes(request.Runs, func() any {
		// Both are edited in place. A deep copy has lists without spare room, as the server's originals do.
		result, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(
			runtime.DeepCopyJSON(original), runtime.DeepCopyJSON(patch), schema)
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return map[string]any{"result": result}
	})}, nil
}

// exportSchemas describes a type as OpenAPI definitions, with the patch metadata of its Go struct.
func exportSchemas(line []byte) (any, error) {
	var request struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	sample, ok := patchable[request.Type]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", request.Type)
	}
	definitions := map[string]any{}
	return map[string]any{
		"root":        describe(reflect.TypeOf(sample), definitions)["$ref"],
		"definitions": definitions,
	}, nil
}

func describe(t reflect.Type, definitions map[string]any) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem(), definitions)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": describe(t.Elem(), definitions)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": describe(t.Elem(), definitions)}
	case reflect.Struct:
		name := strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + t.Name()
		if _, known := definitions[name]; !known {
			definitions[name] = nil
			definitions[name] = describeStruct(t, definitions)
		}
		return map[string]any{"$ref": "#/definitions/" + name}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	default:
		return map[string]any{"type": "integer"}
	}
}

func describeStruct(t reflect.Type, definitions map[string]any) map[string]any {
	// Types that encode themselves are scalars, or anything.
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return map[string]any{"type": "string", "format": "special"}
	}
	properties := map[string]any{}
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			inlined := describeStruct(field.Type, definitions)
			for name, property := range inlined["properties"].(map[string]any) {
				properties[name] = property
			}
			continue
		}
		property := describe(field.Type, definitions)
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			property["x-kubernetes-patch-strategy"] = strategy
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			property["x-kubernetes-patch-merge-key"] = key
		}
		properties[name] = property
	}
	return map[string]any{"type": "object", "properties": properties}
}
