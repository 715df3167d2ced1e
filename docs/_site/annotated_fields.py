"""Document fields by the texts in their annotations, and attributes by the parameters that they are set to."""

from ast import literal_eval
from typing import Any

from griffe import Attribute, Class, Docstring, ExprSubscript, ExprTuple, Extension


class AnnotatedFields(Extension):
    """Complete attributes of classes for the reference."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Give a field without a docstring the text in its annotation, as in `Annotated[int, Ge(1), "rounds"]`."""
        annotation = attr.annotation
        if attr.docstring or not isinstance(annotation, ExprSubscript) or annotation.canonical_name != "Annotated":
            return
        assert isinstance(annotation.slice, ExprTuple)
        texts = [literal_eval(each) for each in annotation.slice.elements if isinstance(each, str) and each[0] in "'\""]
        if texts:
            attr.docstring = Docstring(f"{texts[0][0].upper()}{texts[0][1:]}.", parent=attr)

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Give attributes such as `self.round = round` the type of that parameter instead of its name."""
        for name, attribute in cls.attributes.items():
            if str(attribute.value) == name and name in cls.parameters:
                attribute.annotation, attribute.value = cls.parameters[name].annotation, None
