package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// The built-in kinds that rdd serves: how upstream's typed decoder reads them, and what their Go types are.

var builtinScheme = runtime.NewScheme()

// Types with a decoder of their own, and the word that crates/rdd-builtin has for each.
var builtinSpecial = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                  "Time",
	reflect.TypeFor[metav1.MicroTime]():                             "MicroTime",
	reflect.TypeFor[metav1.FieldsV1]():                              "FieldsV1",
	reflect.TypeFor[resource.Quantity]():                            "Quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "IntOrString",
	reflect.TypeFor[runtime.RawExtension]():                         "RawExtension",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "JSON",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "JSONSchemaPropsOrArray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "JSONSchemaPropsOrBool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "JSONSchemaPropsOrStringArray",
}

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme,
		rbacv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(builtinScheme); err != nil {
			panic(err)
		}
	}
	metav1.AddToGroupVersion(builtinScheme, schema.GroupVersion{Version: "v1"})
	register("types", builtinTypes)
	register("decode", builtinDecode)
}

// decode: {"op": "decode", "apiVersion", "kind", "body" or "text", "stored"} → {"object"} with "findings", or {"error"}. A text is
// a body whose fields are in an order, and some of them there twice. With "stored" the object is written in that encoding, "protobuf" or "json", and read back, as those in the store are before they are answered.
func builtinDecode(line []byte) (any, error) {
	var question struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Body       json.RawMessage `json:"body"`
		Text       string          `json:"text"`
		Stored     string          `json:"stored"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	if question.Text != "" {
		question.Body = []byte(question.Text)
	}
	gv, err := schema.ParseGroupVersion(question.APIVersion)
	if err != nil {
		return nil, err
	}
	gvk := gv.WithKind(question.Kind)
	into, err := builtinScheme.New(gvk)
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(builtinScheme, serializer.EnableStrict)
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), "application/json")
	object, _, err := info.StrictSerializer.Decode(question.Body, &gvk, into)
	findings := []string{}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, finding := range strict.Errors() {
			findings = append(findings, finding.Error())
		}
	} else if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	if question.Stored != "" {
		stored := info.Serializer
		if question.Stored == "protobuf" {
			stored = protobuf.NewSerializer(builtinScheme, builtinScheme)
		}
		bytes, err := runtime.Encode(stored, object)
		if err != nil {
			return nil, err
		}
		again, _ := builtinScheme.New(gvk)
		if object, _, err = stored.Decode(bytes, &gvk, again); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return map[string]any{"object": json.RawMessage(text), "findings": findings}, nil
}

type builtinWalk struct {
	seen  map[reflect.Type]bool
	lines map[string][]string
}

// types: {"op": "types", "kinds": [[apiVersion, kind], …]} → {"types": text}: one paragraph for each struct that the kinds
// are made of.
func builtinTypes(line []byte) (any, error) {
	var question struct {
		Kinds [][2]string `json:"kinds"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return nil, err
	}
	walk := builtinWalk{seen: map[reflect.Type]bool{}, lines: map[string][]string{}}
	for _, kind := range question.Kinds {
		gv, err := schema.ParseGroupVersion(kind[0])
		if err != nil {
			return nil, err
		}
		object, err := builtinScheme.New(gv.WithKind(kind[1]))
		if err != nil {
			return nil, err
		}
		walk.visit(reflect.TypeOf(object).Elem())
	}
	names := []string{}
	for name := range walk.lines {
		names = append(names, name)
	}
	sort.Strings(names)
	var text strings.Builder
	for _, name := range names {
		text.WriteString(strings.Join(walk.lines[name], "\n") + "\n")
	}
	return map[string]any{"types": text.String()}, nil
}

func definitionName(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	domain := strings.Split(path[0], ".")
	for i, j := 0, len(domain)-1; i < j; i, j = i+1, j-1 {
		domain[i], domain[j] = domain[j], domain[i]
	}
	return strings.Join(append(domain, path[1:]...), ".") + "." + t.Name()
}

func (w *builtinWalk) visit(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		w.visit(t.Elem())
	case reflect.Map:
		w.visit(t.Elem())
	case reflect.Struct:
		if strings.HasPrefix(t.Name(), "JSONSchemaPropsOr") {
			w.visit(reflect.TypeFor[apiextensionsv1.JSONSchemaProps]())
		}
		if _, special := builtinSpecial[t]; special || w.seen[t] {
			return
		}
		w.seen[t] = true
		name := definitionName(t)
		w.lines[name] = append([]string{fmt.Sprintf("%s = %s", name, t)}, w.fields(t, "", "")...)
	}
}

// fields has a line for each field of a struct. The numbers are those of protobuf's messages: an embedded struct is one, unless
// it has no number.
func (w *builtinWalk) fields(t reflect.Type, via, numbers string) []string {
	lines := []string{}
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "-" || !field.IsExported() {
			continue
		}
		if field.Anonymous && tag[0] == "" {
			within := "none"
			if number := protobufNumber(field); number != "" && numbers != within {
				within = numbers + number + "."
			}
			lines = append(lines, w.fields(field.Type, via+field.Name+".", within)...)
			continue
		}
		line := fmt.Sprintf("  %s %s", tag[0], w.expression(field.Type))
		for _, option := range tag[1:] {
			if option != "" {
				line += " " + option
			}
		}
		if via != "" {
			line += " via=" + strings.TrimSuffix(via, ".")
		}
		if number := protobufNumber(field); number != "" && numbers != "none" {
			line += " #" + numbers + number
			if field.Name != strings.ToUpper(tag[0][:1])+tag[0][1:] {
				line += ":" + field.Name
			}
		}
		lines = append(lines, line)
		w.visit(field.Type)
	}
	return lines
}

// protobufNumber is the number of a field in its message, empty if it is in none.
func protobufNumber(field reflect.StructField) string {
	words := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

func (w *builtinWalk) expression(t reflect.Type) string {
	if special, ok := builtinSpecial[t]; ok {
		return special
	}
	if t.Kind() == reflect.Struct {
		return definitionName(t)
	}
	text := ""
	switch t.Kind() {
	case reflect.Pointer:
		text = "*" + w.expression(t.Elem())
	case reflect.Slice:
		text = "[]" + w.expression(t.Elem())
		if t.Elem().Kind() == reflect.Uint8 {
			text = "bytes"
		}
	case reflect.Map:
		text = "map[" + w.expression(t.Key()) + "]" + w.expression(t.Elem())
	default:
		text = t.Kind().String()
	}
	if t.Name() != "" && t.PkgPath() != "" {
		return t.String() + "=" + text
	}
	return text
}
