// Two cdk8s classes that take a whole object in one call.
//
// The jsii kernel passes structs by value and drops every key that the struct does not declare, so an ApiObject made
// from another language loses its `spec`. A string is passed as it is. Everything else is cdk8s' own: the tree, the
// names, the order by dependency, JSON patches, and what `toJson` does.
const { ApiObject, Chart } = require("cdk8s");

const pathOf = new WeakMap();

class ManifestObject extends ApiObject {
  constructor(scope, id, manifest) {
    super(scope, id, JSON.parse(manifest));
  }

  toJson() {
    const plain = super.toJson();
    pathOf.set(plain, this.node.path);
    return plain;
  }
}

class StackChart extends Chart {
  // The objects in apply order, each with the path of the construct that made it.
  manifests() {
    return JSON.stringify(this.toJson().map((plain) => [pathOf.get(plain) ?? "", plain]));
  }
}

module.exports = { ManifestObject, StackChart };
