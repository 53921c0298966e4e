"""One small file per channel; ``base.py`` says what each must do."""
