"""What ctxtop knows, for other programs: JSON, CSV, Markdown, Prometheus, OpenTelemetry."""
