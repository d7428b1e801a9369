package main

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAStatusIsWrittenOnlyWhenItIsNotThereYet(t *testing.T) {
	sum := func(status map[string]any, numbers ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"spec":     map[string]any{"numbers": numbers},
			"status":   status,
		}}
	}
	status := func(total, generation int64) map[string]any {
		return map[string]any{"total": total, "observedGeneration": generation}
	}
	for _, row := range []struct {
		seen *unstructured.Unstructured
		want map[string]any
	}{
		{sum(nil, int64(1), int64(2)), status(3, 2)},
		{sum(nil), status(0, 2)},
		{sum(status(3, 2), int64(1), int64(2)), nil},
		{sum(status(3, 1), int64(1), int64(2)), status(3, 2)},
		{sum(status(4, 2), int64(1), int64(2)), status(3, 2)},
	} {
		if got := plan(row.seen); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%v: %v, not %v", row.seen.Object, got, row.want)
		}
	}
}
