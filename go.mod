module velocityd

go 1.26
