// What upstream's storage does with a custom resource, and its judgement on CA bundles: the judge of crates/rdd-schema.

package main

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

func init() {
	operations["crd.store"] = crdStore
	operations["crd.caBundle"] = crdCABundle
}

// crdApply is what unstructuredSchemaCoercer does to an object of the kind that it is for.
func crdApply(object map[string]any, structural *structuralschema.Structural, drop bool) error {
	meta, found, _, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{DropMalformedFields: drop})
	if err != nil {
		return err
	}
	kind, version := object["kind"], object["apiVersion"]
	pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
	if failure, _ := objectmeta.CoerceWithOptions(nil, object, structural, false, objectmeta.CoerceOptions{DropInvalidFields: drop}); failure != nil {
		return failure
	}
	if drop && meta != nil && meta.Generation == 0 {
		meta.Generation = 1
	}
	object["kind"], object["apiVersion"] = kind, version
	if found {
		return objectmeta.SetObjectMeta(object, meta)
	}
	return nil
}

// crdStore decodes a request, takes the status away as PrepareForCreate does, encodes for the store and decodes again: the codec
// of crdConversionRESTOptionsGetter with the strategy None. `old` is the schema of the storage version, if that is another.
func crdStore(line []byte) (any, error) {
	request, structural, value, err := crdSchemaAndObject(line)
	if err != nil {
		return nil, err
	}
	storage := structural
	if len(request.Old) > 0 {
		if _, storage, err = crdSchema(request.Old); err != nil {
			return nil, err
		}
	}
	object := value.(map[string]any)
	version := object["apiVersion"]
	if err := crdApply(object, structural, false); err != nil {
		return map[string]any{"failed": true}, nil
	}
	defaulting.Default(object, structural)
	if request.Root {
		delete(object, "status")
	}
	object["metadata"].(map[string]any)["generation"] = int64(1)
	if storage != structural {
		object["apiVersion"] = "g.io/v2"
		if err := crdApply(object, storage, false); err != nil {
			return map[string]any{"failed": true}, nil
		}
	}
	if err := crdApply(object, storage, true); err != nil {
		return map[string]any{"failed": true}, nil
	}
	defaulting.Default(object, storage)
	object["apiVersion"] = version
	if err := crdApply(object, structural, false); err != nil {
		return map[string]any{"failed": true}, nil
	}
	return object, nil
}

func crdCABundle(line []byte) (any, error) {
	request, err := crdParse(line)
	if err != nil {
		return nil, err
	}
	return crdErrors(webhook.ValidateCABundle(field.NewPath("caBundle"), []byte(request.Text))), nil
}
