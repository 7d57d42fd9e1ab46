"""What an operator's commands need: the log read, commands sent, the control topics made."""
