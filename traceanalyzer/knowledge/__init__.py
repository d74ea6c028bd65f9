"""What the field knows about names, shapes and devices: data sheets, kernel classes, collectives, operator models."""
