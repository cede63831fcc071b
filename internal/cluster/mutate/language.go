package mutate

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

// environment is the part of the language of admission policies that Lull's expressions use.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.HomogeneousAggregateLiterals(), cel.DefaultUTCTimeZone(true),
		cel.CustomTypeAdapter(registry), cel.CustomTypeProvider(patchType{registry}), ext.TwoVarComprehensions(),
	}
	for _, name := range []string{"object", "oldObject", "params", "request", "variables"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewEnv(options...)
})

// compilation is an expression ready to be evaluated, and what it reads of the object.
type compilation struct {
	program cel.Program
	reads   fields
}

// compilations are compiled expressions. There are few: those of the kinds.
var compilations sync.Map // string -> func() (*compilation, error)

// compiled compiles an expression once.
func compiled(text string) (*compilation, error) {
	compile, _ := compilations.LoadOrStore(text, sync.OnceValues(func() (*compilation, error) {
		env, err := environment()
		if err != nil {
			return nil, err
		}
		ast, issues := env.Compile(text)
		if issues.Err() != nil {
			return nil, issues.Err()
		}
		out := &compilation{}
		out.reads.read(ast.NativeRep().Expr())
		out.program, err = env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(mostOfOne), cel.InterruptCheckFrequency(checkEach))
		return out, err
	}))
	return compile.(func() (*compilation, error))()
}

// patchType adds the type JSONPatch, whose values are maps: the native types of cel-go refuse a field of any type.
type patchType struct{ *types.Registry }

var jsonPatchType = types.NewObjectType("JSONPatch")

// FindStructType implements types.Provider.
func (p patchType) FindStructType(name string) (*types.Type, bool) {
	if name == jsonPatchType.TypeName() {
		return types.NewTypeTypeWithParam(jsonPatchType), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p patchType) FindStructFieldNames(name string) ([]string, bool) {
	if name == jsonPatchType.TypeName() {
		return []string{"op", "path", "from", "value"}, true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (p patchType) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != jsonPatchType.TypeName() {
		return p.Registry.FindStructFieldType(name, field)
	}
	switch field {
	case "op", "path", "from":
		return &types.FieldType{Type: types.StringType}, true
	case "value":
		return &types.FieldType{Type: types.DynType}, true
	}
	return nil, false
}

// NewValue implements types.Provider.
func (p patchType) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if name != jsonPatchType.TypeName() {
		return p.Registry.NewValue(name, fields)
	}
	out := map[ref.Val]ref.Val{}
	for field, value := range fields {
		out[types.String(field)] = value
	}
	return types.NewRefValMap(p.Registry, out)
}

// operationsOf converts what a mutation evaluates to.
func operationsOf(v ref.Val) ([]Operation, error) {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("evaluates to a %s; accepted: a list of JSONPatch", v.Type().TypeName())
	}
	var out []Operation
	for it := list.Iterator(); it.HasNext() == types.True; {
		m, ok := plain(it.Next()).(map[string]any)
		if !ok {
			return nil, fmt.Errorf("evaluates to a list of other values; accepted: a list of JSONPatch")
		}
		o := Operation{Value: m["value"]}
		o.Op, _ = m["op"].(string)
		o.Path, _ = m["path"].(string)
		o.From, _ = m["from"].(string)
		out = append(out, o)
	}
	return out, nil
}

// plain converts a value of CEL to one of JSON.
func plain(v ref.Val) any {
	switch v := v.(type) {
	case types.Null:
		return nil
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			out[fmt.Sprint(key.Value())] = plain(v.Get(key))
		}
		return out
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = append(out, plain(it.Next()))
		}
		return out
	}
	return v.Value()
}
