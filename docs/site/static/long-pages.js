// A long page gets a field that leaves its sections and rows with a word, and a list of its sections.

const LONG = 20_000; // letters

document.addEventListener("DOMContentLoaded", () => {
  const page = document.querySelector("article [role=main] > section, article > section, [role=main] section");
  if (!page || page.textContent.length < LONG || document.querySelector("#search-results")) return;
  const sections = [...page.querySelectorAll("section")];
  const rows = [...page.querySelectorAll("tbody tr")];
  if (sections.length + rows.length < 20) return;
  const texts = new Map([...sections, ...rows].map((each) => [each, each.textContent.toLowerCase()]));

  const finder = document.createElement("form");
  finder.className = "finder";
  finder.setAttribute("role", "search");
  finder.setAttribute("aria-label", "This page");
  finder.innerHTML = `
    <label>Filter this page <input type="search" autocomplete="off" spellcheck="false"></label>
    <output></output>
    <details><summary>Sections</summary><ul></ul></details>`;
  const [input, output] = finder.querySelectorAll("input, output");
  const title = (section) => section.querySelector("h2, h3, h4")?.firstChild?.textContent ?? "";
  finder.querySelector("ul").append(...sections.filter((each) => each.parentElement === page).map((each) => {
    const link = document.createElement("a");
    link.href = `#${each.id}`;
    link.textContent = title(each);
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  page.querySelector("h1").after(finder);

  function filter() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (each) => words.every((word) => texts.get(each).includes(word));
    for (const each of texts.keys()) each.hidden = !has(each);
    const found = rows.filter((each) => !each.hidden).length;
    output.textContent = words.length ? `${rows.length ? `${found} of ${rows.length} rows` : ""}` : "";
  }
  input.addEventListener("input", filter);
  finder.addEventListener("submit", (event) => event.preventDefault());
  // A link leads to what may be hidden.
  window.addEventListener("hashchange", () => {
    if (!input.value) return;
    input.value = "";
    filter();
    document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  });
});
