"""Classes on the grid: cleaned of specks, and outlined."""
