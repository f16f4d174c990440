"""The command line, installed as `ucc_path_cli`: one file a command, thin, torch imported only inside a command."""

if __name__ == "cli":
    raise ImportError("this package is installed as ucc_path_cli; import it by that name")
