package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func init() {
	register("protobuf", protobufEncode)
	register("unprotobuf", protobufDecode)
}

func protobufNew(apiVersion, kind string) (schema.GroupVersionKind, runtime.Object, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return schema.GroupVersionKind{}, nil, err
	}
	gvk := gv.WithKind(kind)
	object, err := builtinScheme.New(gvk)
	return gvk, object, err
}

// protobuf: {"op": "protobuf", "apiVersion", "kind", "body"} → {"bytes"}: the object of this JSON in its envelope, base64, or
// {"error"} if it is none. With "partial" its metadata is put into a PartialObjectMetadata.
func protobufEncode(line []byte) (any, error) {
	var question struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Body       json.RawMessage `json:"body"`
		Partial    bool            `json:"partial"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	gvk, object, err := protobufNew(question.APIVersion, question.Kind)
	if err != nil {
		return nil, err
	}
	if question.Partial {
		object = &metav1.PartialObjectMetadata{}
		gvk = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	}
	if err := json.Unmarshal(question.Body, object); err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	bytes, err := runtime.Encode(protobuf.NewSerializer(builtinScheme, builtinScheme), object)
	if err != nil {
		return nil, err
	}
	return map[string]any{"bytes": bytes}, nil
}

// unprotobuf: {"op": "unprotobuf", "apiVersion", "kind", "bytes"} → {"object"}: what upstream reads, as JSON, or {"error"}.
func protobufDecode(line []byte) (any, error) {
	var question struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Bytes      []byte `json:"bytes"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	gvk, into, err := protobufNew(question.APIVersion, question.Kind)
	if err != nil {
		return nil, err
	}
	object, actual, err := protobuf.NewSerializer(builtinScheme, builtinScheme).Decode(question.Bytes, &gvk, into)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	if *actual != gvk {
		return map[string]any{"error": "another kind"}, nil
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(object)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	return map[string]any{"object": json.RawMessage(text)}, nil
}
