"""What a running server needs: settings, metrics, logs."""
