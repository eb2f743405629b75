"""Static checks of scenario files: what is wrong, suspicious or left over, without a run."""
