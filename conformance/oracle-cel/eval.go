package main

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

var base = environment.MustBaseEnvSet(version.MajorMinor(1, 35))

type prepared struct {
	structural *schema.Structural
	env        *celgo.Env
}

var cache = map[string]*prepared{}

func structuralOf(raw json.RawMessage) (*schema.Structural, error) {
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(raw, &props); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return nil, err
	}
	return schema.NewStructural(&internal)
}

func prepare(req *request) (*prepared, error) {
	key := string(req.Schema)
	if req.Root {
		key = "root:" + key
	}
	if p, ok := cache[key]; ok {
		return p, nil
	}
	structural, err := structuralOf(req.Schema)
	if err != nil {
		return nil, err
	}
	decl := model.SchemaDeclType(structural, req.Root).MaybeAssignTypeName("selfType")
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []celgo.EnvOption{
			celgo.Variable("self", decl.CelType()),
			celgo.Variable("oldSelf", decl.CelType()),
		},
		DeclTypes: []*apiservercel.DeclType{decl},
	})
	if err != nil {
		return nil, err
	}
	p := &prepared{structural: structural, env: set.NewExpressionsEnv()}
	if req.Root {
		p.structural = model.WithTypeAndObjectMeta(structural)
	}
	cache[key] = p
	return p, nil
}

// eval compiles and, where that works, evaluates: {"compile": text} or {"program": text} or {"type", "value" | "error", "cost"}.
func eval(req *request) answer {
	p, err := prepare(req)
	if err != nil {
		return answer{"fault": err.Error()}
	}
	ast, issues := p.env.Compile(req.Expr)
	if issues != nil {
		return answer{"compile": issues.String()}
	}
	outType := celgo.FormatCELType(ast.OutputType())
	limit := uint64(1000000)
	if req.Limit != nil {
		limit = *req.Limit
	}
	program, err := p.env.Program(ast, celgo.CostLimit(limit), celgo.CostTracking(&library.CostEstimator{}))
	if err != nil {
		return answer{"type": outType, "program": err.Error()}
	}
	self, err := decode(req.Self)
	if err != nil {
		return answer{"fault": err.Error()}
	}
	vars := map[string]any{"self": schemacel.UnstructuredToVal(self, p.structural)}
	if req.HasOld {
		old, err := decode(req.Old)
		if err != nil {
			return answer{"fault": err.Error()}
		}
		vars["oldSelf"] = schemacel.UnstructuredToVal(old, p.structural)
	}
	value, details, err := program.Eval(vars)
	result := answer{"type": outType}
	if details != nil && details.ActualCost() != nil {
		result["cost"] = *details.ActualCost()
	}
	if err != nil {
		result["error"] = err.Error()
		return result
	}
	result["value"] = encode(value)
	return result
}

// encode writes a value with its type, so that 1, 1u and 1.0 stay apart.
func encode(value ref.Val) any {
	switch v := value.(type) {
	case nil:
		return answer{"nil": true}
	case *types.Err:
		return answer{"err": v.Error()}
	case types.Null:
		return nil
	case types.Bool:
		return bool(v)
	case types.Int:
		return answer{"i": strconv.FormatInt(int64(v), 10)}
	case types.Uint:
		return answer{"u": strconv.FormatUint(uint64(v), 10)}
	case types.Double:
		return answer{"d": strconv.FormatUint(math.Float64bits(canonicalNaN(float64(v))), 16)}
	case types.String:
		return answer{"s": string(v)}
	case types.Bytes:
		return answer{"b": base64.StdEncoding.EncodeToString(v)}
	case types.Timestamp:
		return answer{"ts": v.Time.UTC().Format(time.RFC3339Nano)}
	case types.Duration:
		return answer{"dur": strconv.FormatInt(int64(v.Duration), 10)}
	case *types.Optional:
		if !v.HasValue() {
			return answer{"o": []any{}}
		}
		return answer{"o": []any{encode(v.GetValue())}}
	case *types.Type:
		return answer{"type": v.TypeName()}
	case apiservercel.Quantity:
		return answer{"q": digits(v.AsDec().String())}
	case *apiservercel.Quantity:
		return answer{"q": digits(v.AsDec().String())}
	case apiservercel.URL:
		return answer{"x": v.String()}
	case apiservercel.IP:
		return answer{"x": v.Addr.String()}
	case apiservercel.CIDR:
		return answer{"x": v.Prefix.String()}
	case apiservercel.Semver:
		return answer{"x": v.Version.String()}
	case apiservercel.Format:
		return answer{"x": v.Name}
	case traits.Lister:
		items := []any{}
		for i := types.Int(0); i < v.Size().(types.Int); i++ {
			items = append(items, encode(v.Get(i)))
		}
		return answer{"l": items}
	case traits.Mapper:
		type entry struct {
			key  string
			pair []any
		}
		entries := []entry{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			if k == nil {
				continue
			}
			key := encode(k)
			text, _ := json.Marshal(key)
			entries = append(entries, entry{string(text), []any{key, encode(v.Get(k))}})
		}
		sort.Slice(entries, func(i, j int) bool { return entries[i].key < entries[j].key })
		pairs := []any{}
		for _, e := range entries {
			pairs = append(pairs, e.pair)
		}
		return answer{"m": pairs}
	}
	return answer{"other": value.Type().TypeName()}
}

func canonicalNaN(f float64) float64 {
	if math.IsNaN(f) {
		return math.NaN()
	}
	return f
}

// digits drops the zeros at the end of a decimal fraction.
func digits(text string) string {
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}
