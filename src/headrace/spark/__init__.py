"""The one place where Spark is started: sessions, the process behind them, the workers, jobs with progress."""
