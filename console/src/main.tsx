import { render } from "preact";
import { App } from "./app";
import { startRouter } from "./router";
import { startSession } from "./session";
import { applyTheme } from "./theme";
import "./styles/main.css";

startSession();
startRouter();
applyTheme();
render(<App />, document.getElementById("app")!);
