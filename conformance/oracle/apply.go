package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

func init() {
	register("fieldsv1", fieldsV1)
	register("typed", typedOperations)
	register("ssa", serverSideApply)
}

func setOf(raw json.RawMessage) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if len(raw) == 0 {
		return set, nil
	}
	err := set.FromJSON(strings.NewReader(string(raw)))
	return set, err
}

func textOf(set *fieldpath.Set) string {
	text, err := set.ToJSON()
	if err != nil {
		return "error: " + err.Error()
	}
	return string(text)
}

// fieldsV1 reads a field set, and writes it again with what algebra makes of it and a second one.
func fieldsV1(line []byte) (any, error) {
	var request struct {
		Left  json.RawMessage `json:"left"`
		Right json.RawMessage `json:"right"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	left, err := setOf(request.Left)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	right, err := setOf(request.Right)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{
		"left": textOf(left), "paths": left.String(), "union": textOf(left.Union(right)),
		"intersection": textOf(left.Intersection(right)), "difference": textOf(left.Difference(right)),
		"recursive": textOf(left.RecursiveDifference(right)), "leaves": textOf(left.Leaves()),
	}, nil
}

// definitionsOf reads definitions, or, if it is given a text, the definitions of the swagger file by that name.
func definitionsOf(raw json.RawMessage) (map[string]*spec.Schema, error) {
	var file string
	if json.Unmarshal(raw, &file) == nil {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var swagger struct {
			Definitions map[string]*spec.Schema `json:"definitions"`
		}
		err = json.Unmarshal(content, &swagger)
		return swagger.Definitions, err
	}
	definitions := map[string]*spec.Schema{}
	err := json.Unmarshal(raw, &definitions)
	return definitions, err
}

// typedOperations tries every operation on values of the definition "Root".
func typedOperations(line []byte) (any, error) {
	var request struct {
		Definitions json.RawMessage `json:"definitions"`
		Preserve    bool            `json:"preserve"`
		Left        json.RawMessage `json:"left"`
		Right       json.RawMessage `json:"right"`
		Fields      json.RawMessage `json:"fields"`
		Runs        int             `json:"runs"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	definitions, err := definitionsOf(request.Definitions)
	if err != nil {
		return nil, err
	}
	converted, err := schemaconv.ToSchemaFromOpenAPI(definitions, request.Preserve)
	if err != nil {
		return nil, err
	}
	parser := typed.Parser{Schema: smdschema.Schema{Types: converted.Types}}
	root := parser.Type("Root")
	leftValue, err := decode(request.Left)
	if err != nil {
		return nil, err
	}
	rightValue, err := decode(request.Right)
	if err != nil {
		return nil, err
	}
	fields, err := setOf(request.Fields)
	if err != nil {
		return nil, err
	}
	return map[string]any{"outcomes": outcomes(request.Runs, func() any {
		result := map[string]any{}
		left, err := root.FromUnstructured(leftValue, typed.AllowDuplicates)
		if err != nil {
			result["leftError"] = err.Error()
		}
		right, err := root.FromUnstructured(rightValue)
		if err != nil {
			result["rightError"] = err.Error()
		}
		if left == nil || right == nil {
			return result
		}
		if merged, err := left.Merge(right); err != nil {
			result["mergeError"] = err.Error()
		} else if merged.AsValue() != nil {
			result["merged"] = merged.AsValue().Unstructured()
		} else {
			result["merged"] = nil
		}
		if comparison, err := left.Compare(right); err != nil {
			result["compareError"] = err.Error()
		} else {
			result["added"] = textOf(comparison.Added)
			result["modified"] = textOf(comparison.Modified)
			result["removed"] = textOf(comparison.Removed)
		}
		if set, err := left.ToFieldSet(); err != nil {
			result["setError"] = err.Error()
		} else {
			result["set"] = textOf(set)
			result["named"] = textOf(set.EnsureNamedFieldsAreMembers(left.Schema(), left.TypeRef()))
		}
		result["without"] = left.RemoveItems(fields).AsValue().Unstructured()
		result["extracted"] = left.ExtractItems(fields).AsValue().Unstructured()
		result["extractedWithKeys"] = left.ExtractItems(fields, typed.WithAppendKeyFields()).AsValue().Unstructured()
		if reconciled, err := typed.ReconcileFieldSetWithSchema(fields, left); err != nil {
			result["reconcileError"] = true
		} else if reconciled != nil {
			result["reconciled"] = textOf(reconciled)
		}
		return result
	})}, nil
}

// converter knows versions that differ in their name only, as a CRD with strategy None.
type converter struct {
	versions map[string]bool
}

func (c converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	object, ok := in.DeepCopyObject().(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", in)
	}
	kind, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{object.GroupVersionKind()})
	if version, isVersion := target.(schema.GroupVersion); isVersion {
		kind, ok = version.WithKind(object.GetKind()), true
	}
	if !ok || !c.versions[kind.GroupVersion().String()] {
		return nil, runtime.NewNotRegisteredErrForKind("oracle", kind)
	}
	object.SetGroupVersionKind(kind)
	return object, nil
}

func (c converter) Convert(in, out, context any) error { return fmt.Errorf("not supported") }

func (c converter) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return "", "", fmt.Errorf("not supported")
}

func (c converter) Default(in runtime.Object) {}

func (c converter) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// serverSideApply plays a history of requests on one object through upstream's field manager.
func serverSideApply(line []byte) (any, error) {
	var request struct {
		// Sets of definitions, one of which each step uses: a schema may change under an object.
		Schemas []json.RawMessage `json:"schemas"`
		Steps   []struct {
			Kind        string                     `json:"kind"`
			Schema      int                        `json:"schema"`
			Versions    []string                   `json:"versions"`
			Version     string                     `json:"version"`
			Subresource string                     `json:"subresource"`
			Reset       map[string]json.RawMessage `json:"reset"`
			Verb        string                     `json:"verb"`
			Manager     string                     `json:"manager"`
			Force       bool                       `json:"force"`
			Object      json.RawMessage            `json:"object"`
			Live        json.RawMessage            `json:"live"`
			Now         string                     `json:"now"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	converters := []managedfields.TypeConverter{}
	for _, raw := range request.Schemas {
		definitions, err := definitionsOf(raw)
		if err != nil {
			return nil, err
		}
		typeConverter, err := managedfields.NewTypeConverter(definitions, false)
		if err != nil {
			return nil, err
		}
		converters = append(converters, typeConverter)
	}
	answers := []any{}
	for _, step := range request.Steps {
		versions := map[string]bool{}
		for _, version := range step.Versions {
			versions[version] = true
		}
		reset := map[fieldpath.APIVersion]*fieldpath.Set{}
		for version, raw := range step.Reset {
			set, err := setOf(raw)
			if err != nil {
				return nil, err
			}
			reset[fieldpath.APIVersion(version)] = set
		}
		groupVersion, err := schema.ParseGroupVersion(step.Version)
		if err != nil {
			return nil, err
		}
		c := converter{versions}
		manager, err := managedfields.NewDefaultCRDFieldManager(converters[step.Schema], c, c, c,
			groupVersion.WithKind(step.Kind), groupVersion, step.Subresource, fieldpath.NewExcludeFilterSetMap(reset))
		if err != nil {
			return nil, err
		}
		object, err := decodeMap(step.Object)
		if err != nil {
			return nil, err
		}
		live, err := decodeMap(step.Live)
		if err != nil {
			return nil, err
		}
		answers = append(answers, play(manager, step.Verb, live, object, step.Manager, step.Force, step.Now))
	}
	return map[string]any{"answers": answers}, nil
}

func play(manager *managedfields.FieldManager, verb string, live, object map[string]any, name string, force bool, now string) (answer any) {
	defer func() {
		if reason := recover(); reason != nil {
			answer = map[string]any{"panic": fmt.Sprint(reason)}
		}
	}()
	liveObject := &unstructured.Unstructured{Object: live}
	newObject := &unstructured.Unstructured{Object: object}
	var result runtime.Object
	var err error
	if verb == "apply" {
		result, err = manager.Apply(liveObject, newObject, name, force)
	} else {
		result, err = manager.Update(liveObject, newObject, name)
	}
	if err != nil {
		answer := map[string]any{"error": err.Error()}
		if status, ok := err.(apierrors.APIStatus); ok {
			answer["code"] = status.Status().Code
			if details := status.Status().Details; details != nil {
				answer["causes"] = details.Causes
			}
		}
		return answer
	}
	content := result.(*unstructured.Unstructured).Object
	// The field manager reads the clock. What it stamped gets the time of the question instead.
	if entries, found, _ := unstructured.NestedSlice(content, "metadata", "managedFields"); found {
		for _, entry := range entries {
			entry := entry.(map[string]any)
			if stamp, ok := entry["time"].(string); ok {
				if at, err := time.Parse(time.RFC3339, stamp); err == nil && at.Year() >= 2025 {
					entry["time"] = now
				}
			}
		}
		_ = unstructured.SetNestedSlice(content, entries, "metadata", "managedFields")
	}
	return map[string]any{"object": content}
}
