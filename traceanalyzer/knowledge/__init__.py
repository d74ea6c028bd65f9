"""Domain knowledge about names, shapes and devices: data sheets, kernel classes, collectives, operator models."""
