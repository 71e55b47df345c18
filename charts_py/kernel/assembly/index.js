// cdk8s classes that take whole objects in one call.
//
// The jsii kernel passes structs by value and drops every key that the struct does not declare, so an ApiObject made
// from another language loses its `spec`. A string is passed as it is. Everything else is cdk8s' own: the tree, the
// names, the order by dependency, JSON patches, and what `toJson` does.
const { ApiObject, Chart } = require("cdk8s");
const { Construct } = require("constructs");

const pathOf = new WeakMap();

class ManifestObject extends ApiObject {
  constructor(scope, id, manifest) {
    super(scope, id, typeof manifest === "string" ? JSON.parse(manifest) : manifest);
  }

  toJson() {
    const plain = super.toJson();
    pathOf.set(plain, this.node.path);
    return plain;
  }
}

class Component extends Construct {
  // `manifests` is a JSON list; each becomes a child called <kind>-<name>.
  constructor(scope, id, manifests) {
    super(scope, id);
    for (const manifest of JSON.parse(manifests)) {
      new ManifestObject(this, `${manifest.kind}-${manifest.metadata.name}`.toLowerCase(), manifest);
    }
  }
}

class StackChart extends Chart {
  // The objects in apply order, each with the path of the construct that made it.
  manifests() {
    return JSON.stringify(this.toJson().map((plain) => [pathOf.get(plain) ?? "", plain]));
  }
}

module.exports = { Component, ManifestObject, StackChart };
