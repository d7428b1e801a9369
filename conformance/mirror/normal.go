package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// state is what one run of a script has learned: values to use again, and what stands for what differs from run to run.
type state struct {
	server    string
	namespace string
	kept      map[string]string
	aliases   map[string]string
	// What a UID or a version is called: after its object, so that one write too few does not rename all that follow.
	uids     map[string]string
	versions map[string]string
	// How many of each were called after one object.
	called map[string]int
}

func newState(server, namespace string) *state {
	return &state{
		server:    server,
		namespace: namespace,
		kept:      map[string]string{"ns": namespace},
		aliases:   map[string]string{},
		uids:      map[string]string{},
		versions:  map[string]string{},
		called:    map[string]int{},
	}
}

var variable = regexp.MustCompile(`\$\(([a-z0-9-]+)\)`)

// fill puts kept values into a text of the script.
func (s *state) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if value, known := s.kept[found[2:len(found)-1]]; known {
			return value
		}
		return found
	})
}

func (s *state) remember(asked question, value any) {
	for _, pair := range asked.keep {
		if found, ok := lookUp(value, pair[1]); ok {
			s.kept[pair[0]] = plain(found)
		}
	}
	for _, pair := range asked.alias {
		if found, ok := lookUp(value, pair[1]); ok {
			s.kept[pair[0]] = plain(found)
			s.aliases[plain(found)] = "$(" + pair[0] + ")"
		}
	}
}

func plain(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	encoded, _ := json.Marshal(value)
	return string(encoded)
}

var step = regexp.MustCompile(`^([^.\[]*)((?:\[[^\]]*\])*)$`)

// lookUp follows a path such as .items[0].metadata.name or .resources[name=configmaps].verbs; a key with dots is
// written in quotes: ."api/v1".
func lookUp(value any, path string) (any, bool) {
	for _, part := range splitPath(path) {
		matched := step.FindStringSubmatch(part)
		if strings.HasPrefix(part, `"`) {
			matched = []string{part, strings.Trim(part, `"`), ""}
		}
		if matched == nil {
			return nil, false
		}
		if matched[1] != "" {
			fields, ok := value.(map[string]any)
			if !ok {
				return nil, false
			}
			if value, ok = fields[matched[1]]; !ok {
				return nil, false
			}
		}
		for _, index := range strings.Split(strings.Trim(matched[2], "[]"), "][") {
			if index == "" {
				continue
			}
			var ok bool
			if value, ok = element(value, index); !ok {
				return nil, false
			}
		}
	}
	return value, true
}

func splitPath(path string) []string {
	var parts []string
	var part strings.Builder
	quoted, brackets := false, 0
	for _, char := range strings.TrimPrefix(path, ".") {
		switch {
		case char == '"':
			quoted = !quoted
		case char == '[':
			brackets++
		case char == ']':
			brackets--
		}
		if char == '.' && !quoted && brackets == 0 {
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		part.WriteRune(char)
	}
	return append(parts, part.String())
}

func element(value any, index string) (any, bool) {
	items, ok := value.([]any)
	if !ok {
		return nil, false
	}
	if key, want, found := strings.Cut(index, "="); found {
		for _, item := range items {
			if got, ok := lookUp(item, key); ok && plain(got) == want {
				return item, true
			}
		}
		return nil, false
	}
	number, err := strconv.Atoi(index)
	if err != nil || number < 0 || number >= len(items) {
		return nil, false
	}
	return items[number], true
}

// remove takes the part at this path out of a value; [*] means every element.
func remove(value any, path string) {
	parts := splitPath(path)
	removeAt(value, parts)
}

func removeAt(value any, parts []string) {
	name, every := strings.CutSuffix(parts[0], "[*]")
	fields, ok := value.(map[string]any)
	if !ok {
		return
	}
	if len(parts) == 1 && !every {
		delete(fields, strings.Trim(name, `"`))
		return
	}
	inner := fields[name]
	if !every {
		removeAt(inner, parts[1:])
		return
	}
	items, _ := inner.([]any)
	for _, item := range items {
		removeAt(item, parts[1:])
	}
}

// render writes an answer in its comparable form: code, type, the header lines that matter, body.
func render(asked question, got raw, values []any, isJSON bool, state *state) string {
	var text strings.Builder
	text.WriteString(strings.TrimRight(fmt.Sprintf("%d %s", got.code, got.header.Get("Content-Type")), " ") + "\n")
	for _, name := range append([]string{"Warning", "Retry-After", "Allow"}, asked.headersShown...) {
		for _, line := range got.header.Values(name) {
			fmt.Fprintf(&text, "%s: %s\n", name, state.text(line))
		}
	}
	if !isJSON {
		text.WriteString(state.text(strings.TrimRight(string(got.body), "\n")))
		return strings.TrimRight(text.String(), "\n") + "\n"
	}
	for _, value := range values {
		if document, isObject := value.(map[string]any); isObject {
			if parameters, isOpenAPI := document["parameters"].(map[string]any); isOpenAPI {
				value = resolved(value, parameters)
			}
		}
		for _, path := range asked.hide {
			remove(value, path)
		}
		value = state.normal("", value)
		if len(asked.show) == 0 {
			text.WriteString(pretty(value))
			continue
		}
		for _, path := range asked.show {
			if found, ok := lookUp(value, path); ok {
				fmt.Fprintf(&text, "%s = %s", path, pretty(found))
			} else {
				fmt.Fprintf(&text, "%s is not there\n", path)
			}
		}
	}
	return text.String()
}

// resolved replaces references to the parameters of an OpenAPI document by what they refer to: whether a parameter is
// written where it is used or elsewhere is up to the author.
func resolved(value any, parameters map[string]any) any {
	switch value := value.(type) {
	case map[string]any:
		if reference, isText := value["$ref"].(string); isText && strings.HasPrefix(reference, "#/parameters/") {
			return parameters[strings.TrimPrefix(reference, "#/parameters/")]
		}
		for key, inner := range value {
			value[key] = resolved(inner, parameters)
		}
	case []any:
		for i, inner := range value {
			value[i] = resolved(inner, parameters)
		}
	}
	return value
}

func pretty(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
	return out.String()
}

// Descriptions of ours are shorter than this. Upstream's are not ours to keep, nor is anybody bound to their wording.
const ownDescription = 24

// normal replaces what differs from run to run, keeping which of them are the same.
func (s *state) normal(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		return s.normalObject(value)
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = s.normal(key, item)
		}
		if key == "managedFields" {
			// They stand in the order of their times, and whether two fall into one second is chance.
			slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(owner(a), owner(b)) })
		}
		if key == "causes" {
			// Upstream collects conflicts in a map.
			slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(conflict(a), conflict(b)) })
		}
		return out
	case string:
		if key == "cells" && age.MatchString(value) {
			return "<age>"
		}
		if key == "manager" && (value == "kube-apiserver" || value == "rdd-apiserver") {
			return "<server>"
		}
		if key == "description" && len(value) > ownDescription {
			return "<text>"
		}
		if key == "continue" && value != "" {
			return continueToken(value)
		}
		return s.text(value)
	}
	return value
}

func owner(entry any) string {
	fields, _ := entry.(map[string]any)
	return fmt.Sprint(fields["operation"], " ", fields["manager"], " ", fields["apiVersion"], " ", fields["subresource"])
}

// conflict is the field of a conflict, and nothing for other causes.
func conflict(cause any) string {
	fields, _ := cause.(map[string]any)
	if fields["reason"] != "FieldManagerConflict" {
		return ""
	}
	return fmt.Sprint(fields["field"], " ", fields["message"])
}

func (s *state) normalObject(fields map[string]any) any {
	out := make(map[string]any, len(fields))
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	name, hasName := fields["name"].(string)
	name = s.text(name)
	if found, isText := fields["uid"].(string); isText && hasName && uid.MatchString(found) {
		s.callUID(found, name)
	}
	for _, key := range keys {
		text, isText := fields[key].(string)
		switch {
		case key == "resourceVersion" && isText && number.MatchString(text) && text != "0" && hasName:
			out[key] = s.version(text, name)
		case key == "resourceVersion" && isText && number.MatchString(text) && text != "0":
			out[key] = "<list version>"
		default:
			out[s.text(key)] = s.normal(key, fields[key])
		}
	}
	return out
}

func (s *state) version(text, object string) string {
	key := object + " " + text
	if _, known := s.versions[key]; !known {
		s.versions[key] = "<" + s.count("version", object) + ">"
		// Messages say a version without its object.
		s.versions[text] = s.versions[key]
	}
	return s.versions[key]
}

func (s *state) callUID(found, object string) {
	if _, known := s.uids[found]; !known && !isOwn(found) {
		s.uids[found] = "<" + s.count("uid", object) + ">"
	}
}

// count is the next name of a thing of an object: "version 2 of shelf".
func (s *state) count(thing, object string) string {
	key := thing + " of " + object
	s.called[key]++
	return fmt.Sprintf("%s %d of %s", thing, s.called[key], object)
}

var (
	number = regexp.MustCompile(`^[0-9]+$`)
	age    = regexp.MustCompile(`^([0-9]+[smhdy])+$`)
	uid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	tooOld = regexp.MustCompile(`(too old resource version: \d+) \(\d+\)`)
	tooNew = regexp.MustCompile(`(Too large resource version: \d+, current:) \d+`)
	quoted = regexp.MustCompile(`(resourceVersion(?:\\*":\\*"|: "))(\d+)`)
	inMeta = regexp.MustCompile(`(ResourceVersion in (?:precondition: |object meta: |record \())(\d+)`)
	digest = regexp.MustCompile(`hash=[0-9A-F]{128}`)
	// An object that a message quotes.
	inner = regexp.MustCompile(`"\{(?:[^"\\]|\\.)*\}"`)
	// Where upstream's scheme is made, which depends on how it was built.
	scheme  = regexp.MustCompile(`in scheme "[^"]*"`)
	version = regexp.MustCompile(`v1\.35\.4[+a-zA-Z0-9.-]*`)
)

func (s *state) text(text string) string {
	text = strings.ReplaceAll(text, strings.TrimPrefix(s.server, "https://"), "<server>")
	text = version.ReplaceAllString(text, "<server version>")
	text = digest.ReplaceAllString(text, "hash=<hash>")
	text = inner.ReplaceAllStringFunc(text, sortedInner)
	text = scheme.ReplaceAllString(text, `in scheme "<place>"`)
	text = uid.ReplaceAllStringFunc(text, s.uidName)
	text = moment.ReplaceAllStringFunc(text, momentName)
	text = tooOld.ReplaceAllString(text, "$1 (<version>)")
	text = tooNew.ReplaceAllString(text, "$1 <version>")
	for _, pattern := range []*regexp.Regexp{inMeta, quoted} {
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			parts := pattern.FindStringSubmatch(found)
			if name, known := s.versions[parts[2]]; known {
				return parts[1] + name
			}
			if strings.HasSuffix(parts[1], `: "`) {
				return parts[1] + "<list version>"
			}
			return found
		})
	}
	names := make([]string, 0, len(s.aliases))
	for value := range s.aliases {
		names = append(names, value)
	}
	// The longest first, since one may contain another.
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, value := range names {
		text = strings.ReplaceAll(text, value, s.aliases[value])
	}
	return text
}

// sortedInner puts the members of a quoted object into order: which comes first depends on who wrote it last.
func sortedInner(found string) string {
	text, err := strconv.Unquote(found)
	if err != nil {
		return found
	}
	values, isJSON := decodeAll([]byte(text))
	if !isJSON || len(values) != 1 {
		return found
	}
	sorted, err := json.Marshal(values[0])
	if err != nil {
		return found
	}
	return strconv.Quote(string(sorted))
}

func (s *state) uidName(found string) string {
	if isOwn(found) {
		return found
	}
	s.callUID(found, "something")
	return s.uids[found]
}

// isOwn says whether a UID was written by a script: those begin with eight times the same digit.
func isOwn(found string) bool {
	return strings.Trim(found[:8], found[:1]) == ""
}

// momentName leaves alone what is not about now: those moments come from the script.
func momentName(found string) string {
	parsed, err := time.Parse(time.RFC3339Nano, found)
	if err != nil || time.Since(parsed).Abs() > 2*time.Hour {
		return found
	}
	if strings.Contains(found, ".") {
		return "<exact time>"
	}
	return "<time>"
}

// continueToken shows what a token says, but for its version.
func continueToken(token string) string {
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "<token that is not base64>"
	}
	var fields map[string]any
	if json.Unmarshal(decoded, &fields) != nil {
		return "<token that is not JSON>"
	}
	if version, ok := fields["rv"].(float64); ok && version > 0 {
		fields["rv"] = "<version>"
	}
	// Tokens are opaque to clients; whether a key is written with the slash before it is the server's affair.
	if start, ok := fields["start"].(string); ok {
		fields["start"] = strings.TrimPrefix(start, "/")
	}
	return "<token " + strings.TrimSpace(pretty(fields)) + ">"
}
