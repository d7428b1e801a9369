package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"

	testpb "cel.dev/expr/conformance/test"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// rules runs the x-kubernetes-validations of a schema over an object, as the custom resource handler does.
func rules(ctx context.Context, req *request) answer {
	structural, err := structuralOf(req.Schema)
	if err != nil {
		return answer{"fault": err.Error()}
	}
	self, err := decode(req.Self)
	if err != nil {
		return answer{"fault": err.Error()}
	}
	old, err := decode(req.Old)
	if err != nil {
		return answer{"fault": err.Error()}
	}
	validator := schemacel.NewValidator(structural, req.Root, celconfig.PerCallLimit)
	budget := int64(celconfig.RuntimeCELCostBudget)
	if req.Budget != 0 {
		budget = req.Budget
	}
	var opts []schemacel.Option
	if req.Ratchet && old != nil {
		opts = append(opts, schemacel.WithRatcheting(common.NewCorrelatedObject(self, old, &model.Structural{Structural: structural})))
	}
	errs, remaining := validator.Validate(ctx, field.NewPath("root"), structural, self, old, budget, opts...)
	list := []any{}
	for _, e := range errs {
		list = append(list, answer{"type": string(e.Type), "field": e.Field, "detail": e.Detail, "text": e.Error()})
	}
	return answer{"errors": list, "remaining": remaining}
}

// vectors lists the expressions of cel-spec's conformance files in a folder.
func vectors(folder string) answer {
	files, err := filepath.Glob(filepath.Join(folder, "*.textproto"))
	if err != nil {
		return answer{"fault": err.Error()}
	}
	cases := []any{}
	skipped := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return answer{"fault": err.Error()}
		}
		var file testpb.SimpleTestFile
		if err := (prototext.UnmarshalOptions{DiscardUnknown: true, AllowPartial: true}).Unmarshal(text, &file); err != nil {
			skipped++
			continue
		}
		for _, section := range file.Section {
			for _, test := range section.Test {
				cases = append(cases, answer{"file": file.Name, "name": section.Name + "/" + test.Name, "expr": test.Expr})
			}
		}
	}
	return answer{"cases": cases, "unreadable": skipped}
}

// crd reads CustomResourceDefinitions from a YAML file or folder and returns each version's schema as JSON.
func crd(path string) answer {
	found := []any{}
	err := filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !(strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, document := range strings.Split(string(text), "\n---") {
			if !strings.Contains(document, "kind: CustomResourceDefinition") {
				continue
			}
			var definition apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal([]byte(document), &definition); err != nil {
				continue
			}
			for _, v := range definition.Spec.Versions {
				if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
					found = append(found, answer{"name": fmt.Sprintf("%s/%s", definition.Name, v.Name), "schema": v.Schema.OpenAPIV3Schema})
				}
			}
		}
		return nil
	})
	if err != nil {
		return answer{"fault": err.Error()}
	}
	return answer{"schemas": found}
}
