-- title: Launch settings that the text names
-- column setting: {label = "setting", kind = "code"}
-- column purpose: {label = "what for"}
SELECT seal, setting, value, purpose FROM published_recipe_launch ORDER BY position
