"""Knowledge bases as archives: written from one service, read into another, nothing parsed or embedded again."""
