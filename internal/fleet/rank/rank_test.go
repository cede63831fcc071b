package rank_test

import (
	"errors"
	"strings"
	"testing"

	"lull.dev/lull/internal/fleet/rank"
)

func TestExpression(t *testing.T) {
	signals := map[string]float64{"intensity": 100, "irradiance": 500, "wind": 4}
	for text, want := range map[string]float64{
		"irradiance": 500, "-intensity": -100, "irradiance - 2.0 * intensity": 300, "wind > 3.0 ? 1 : 0": 1, "wind > 3 ? 1.5 : 0.5": 1.5,
	} {
		score, err := rank.Expression(text, []string{"irradiance", "wind"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := score(signals); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "irradiance +", "unknown", "'text'", "irradiance > 1.0", strings.Repeat("1+", 5000) + "1"} {
		if _, err := rank.Expression(text, []string{"irradiance"}); !errors.Is(err, rank.ErrExpression) {
			t.Errorf("expression %.20q: %v", text, err)
		}
	}
	score, err := rank.Expression("irradiance", []string{"irradiance"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := score(map[string]float64{"intensity": 1}); err == nil {
		t.Error("a place without the signal gave no error")
	}
}
