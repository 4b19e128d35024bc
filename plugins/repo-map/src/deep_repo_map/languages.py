"""Languages: which files are of one, its grammar, and tree-sitter queries for what it defines."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LANGUAGES", "Language", "language_of"]


@dataclass(frozen=True)
class Language:
    """A language that has a grammar.

    Attributes:
        shown: its name for people.
        suffixes: of its files, in lower case.
        module: of its grammar.
        query: captures a definition as `@defined`, in it its `@name`; and as `@local` code whose definitions nobody
            reaches from outside.
        unread: node types in which no name is used.
        function: of the module, which returns the grammar.
    """

    shown: str
    suffixes: tuple[str, ...]
    module: str
    query: str
    unread: tuple[str, ...] = ("comment", "string")
    function: str = "language"


def _defined(pattern: str) -> str:
    """Write a query of lines `node_type name_type`, and of patterns, which begin with a bracket."""
    lines = [line.strip() for line in pattern.strip().splitlines()]
    return "\n".join(
        line if line.startswith("(") else "({} name: ({}) @name) @defined".format(*line.split()) for line in lines
    )


_PYTHON = _defined("""
    function_definition identifier
    class_definition identifier
    (module (expression_statement (assignment left: (identifier) @name) @defined))
    (module (type_alias_statement left: (type (identifier) @name)) @defined)
    (function_definition body: (_) @local)
""")
_SCRIPT = _defined("""
    function_declaration identifier
    generator_function_declaration identifier
    function_signature identifier
    class_declaration type_identifier
    abstract_class_declaration type_identifier
    interface_declaration type_identifier
    type_alias_declaration type_identifier
    enum_declaration identifier
    internal_module identifier
    method_definition property_identifier
    abstract_method_signature property_identifier
    (program (lexical_declaration (variable_declarator name: (identifier) @name) @defined))
    (program (variable_declaration (variable_declarator name: (identifier) @name) @defined))
    (program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @defined)))
    (function_declaration body: (_) @local)
    (generator_function_declaration body: (_) @local)
    (method_definition body: (_) @local)
    (function_expression body: (_) @local)
    (arrow_function body: (_) @local)
""")
_GO = _defined("""
    function_declaration identifier
    method_declaration field_identifier
    type_spec type_identifier
    type_alias type_identifier
    (source_file (const_declaration (const_spec name: (identifier) @name) @defined))
    (source_file (var_declaration (var_spec name: (identifier) @name) @defined))
    (function_declaration body: (_) @local)
    (method_declaration body: (_) @local)
    (func_literal body: (_) @local)
""")
_RUST = _defined("""
    function_item identifier
    function_signature_item identifier
    struct_item type_identifier
    enum_item type_identifier
    union_item type_identifier
    trait_item type_identifier
    type_item type_identifier
    const_item identifier
    static_item identifier
    macro_definition identifier
    (mod_item name: (identifier) @name body: (_)) @defined
    (function_item body: (_) @local)
    (closure_expression body: (_) @local)
""")
_JAVA = _defined("""
    class_declaration identifier
    interface_declaration identifier
    enum_declaration identifier
    record_declaration identifier
    annotation_type_declaration identifier
    method_declaration identifier
    constructor_declaration identifier
    (method_declaration body: (_) @local)
    (constructor_declaration body: (_) @local)
    (lambda_expression body: (_) @local)
""")
_CPP = _defined("""
    namespace_definition namespace_identifier
    alias_declaration type_identifier
    preproc_def identifier
    preproc_function_def identifier
    (struct_specifier name: (type_identifier) @name body: (_)) @defined
    (class_specifier name: (type_identifier) @name body: (_)) @defined
    (union_specifier name: (type_identifier) @name body: (_)) @defined
    (enum_specifier name: (type_identifier) @name body: (_)) @defined
    (type_definition declarator: (type_identifier) @name) @defined
    (function_declarator declarator: [(identifier) (field_identifier) (destructor_name)] @name) @defined
    (function_declarator declarator: (qualified_identifier) @name) @defined
    (function_definition body: (_) @local)
    (lambda_expression body: (_) @local)
""")
_RUBY = _defined("""
    method _
    singleton_method _
    class _
    module _
    (assignment left: (constant) @name) @defined
    (method body: (_) @local)
    (singleton_method body: (_) @local)
""")
_C_SHARP = _defined("""
    class_declaration identifier
    struct_declaration identifier
    interface_declaration identifier
    enum_declaration identifier
    record_declaration identifier
    delegate_declaration identifier
    method_declaration identifier
    constructor_declaration identifier
    property_declaration identifier
    (method_declaration body: (_) @local)
    (constructor_declaration body: (_) @local)
""")
_PHP = _defined("""
    class_declaration name
    interface_declaration name
    trait_declaration name
    enum_declaration name
    function_definition name
    method_declaration name
    (const_declaration (const_element (name) @name) @defined)
    (function_definition body: (_) @local)
    (method_declaration body: (_) @local)
""")
_LITERALS = ("line_comment", "block_comment", "string_literal")

LANGUAGES: dict[str, Language] = {
    "python": Language("Python", (".py", ".pyi"), "tree_sitter_python", _PYTHON),
    # The grammar with JSX reads JavaScript too, and that of C++ reads C.
    "tsx": Language(
        "JavaScript/TSX",
        (".js", ".jsx", ".mjs", ".cjs", ".tsx"),
        "tree_sitter_typescript",
        _SCRIPT,
        ("comment", "string", "regex"),
        "language_tsx",
    ),
    "typescript": Language(
        "TypeScript",
        (".ts", ".mts", ".cts"),
        "tree_sitter_typescript",
        _SCRIPT,
        ("comment", "string", "regex"),
        "language_typescript",
    ),
    "go": Language(
        "Go", (".go",), "tree_sitter_go", _GO, ("comment", "interpreted_string_literal", "raw_string_literal")
    ),
    "rust": Language("Rust", (".rs",), "tree_sitter_rust", _RUST, _LITERALS),
    "java": Language("Java", (".java",), "tree_sitter_java", _JAVA, _LITERALS),
    "cpp": Language(
        "C/C++",
        (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"),
        "tree_sitter_cpp",
        _CPP,
        ("comment", "string_literal"),
    ),
    "ruby": Language("Ruby", (".rb", ".rake"), "tree_sitter_ruby", _RUBY),
    "c_sharp": Language("C#", (".cs",), "tree_sitter_c_sharp", _C_SHARP, ("comment", "string_literal")),
    "php": Language("PHP", (".php",), "tree_sitter_php", _PHP, ("comment", "string"), "language_php"),
}
_BY_SUFFIX = {suffix: name for name, language in LANGUAGES.items() for suffix in language.suffixes}


def language_of(path: str) -> str | None:
    """Return the key in `LANGUAGES` of a file, by its name; None without a grammar."""
    stem, _, suffix = path.rpartition("/")[2].rpartition(".")
    return _BY_SUFFIX.get(f".{suffix.lower()}") if stem else None
