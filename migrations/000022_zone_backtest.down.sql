DROP TABLE zone_backtest
