package simkube

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityType is the type of quantities in expressions.
var quantityType = cel.OpaqueType("kubernetes.Quantity")

// quantity is a value of that type.
type quantity struct{ resource.Quantity }

// ConvertToNative implements ref.Val.
func (q quantity) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a quantity is no %v", t)
}

// ConvertToType implements ref.Val.
func (q quantity) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("a quantity is no %s", t.TypeName())
}

// Equal implements ref.Val.
func (q quantity) Equal(other ref.Val) ref.Val {
	x, is := other.(quantity)
	return types.Bool(is && q.Cmp(x.Quantity) == 0)
}

// Type implements ref.Val.
func (q quantity) Type() ref.Type { return quantityType }

// Value implements ref.Val.
func (q quantity) Value() any { return q.Quantity }

// lists are those functions of Kubernetes on lists that the rules of Lull use.
func lists() []cel.EnvOption {
	return []cel.EnvOption{cel.Function("isSorted", cel.MemberOverload("list_is_sorted_dyn", []*cel.Type{cel.ListType(cel.DynType)}, cel.BoolType, cel.UnaryBinding(func(x ref.Val) ref.Val {
		list := x.(traits.Lister)
		n, _ := list.Size().(types.Int)
		for i := types.Int(1); i < n; i++ {
			before, ok := list.Get(i - 1).(traits.Comparer)
			if !ok {
				return types.NewErr("a list of values that cannot be compared")
			}
			if order := before.Compare(list.Get(i)); order == types.IntOne {
				return types.False
			} else if types.IsError(order) {
				return order
			}
		}
		return types.True
	})))}
}

// quantities are those functions on quantities that the rules of Lull use. A rule with another one does not compile.
func quantities() []cel.EnvOption {
	parse := func(x ref.Val) (quantity, error) {
		text, _ := x.Value().(string)
		q, err := resource.ParseQuantity(text)
		return quantity{q}, err
	}
	compare := func(result func(order int) ref.Val) cel.OverloadOpt {
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			x, y := a.(quantity), b.(quantity)
			return result(x.Cmp(y.Quantity))
		})
	}
	pair := []*cel.Type{quantityType, quantityType}
	return []cel.EnvOption{
		cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(func(x ref.Val) ref.Val {
			_, err := parse(x)
			return types.Bool(err == nil)
		}))),
		cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, quantityType, cel.UnaryBinding(func(x ref.Val) ref.Val {
			q, err := parse(x)
			if err != nil {
				return types.WrapErr(err)
			}
			return q
		}))),
		cel.Function("compareTo", cel.MemberOverload("quantity_compare_to", pair, cel.IntType, compare(func(order int) ref.Val { return types.Int(order) }))),
		cel.Function("isGreaterThan", cel.MemberOverload("quantity_is_greater_than", pair, cel.BoolType, compare(func(order int) ref.Val { return types.Bool(order > 0) }))),
	}
}
