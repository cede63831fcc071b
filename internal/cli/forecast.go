package cli

import (
	"github.com/spf13/cobra"
)

func newForecastCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forecast",
		Short:   "Judge forecasts of carbon intensity",
		Long:    "Forecast measures how good forecasts made from past intensities are for scheduling.",
		Example: "  lull forecast backtest 2022.csv 2023.csv --from 2023-01-01",
	}
	cmd.AddCommand(newBacktestCommand())
	return cmd
}
